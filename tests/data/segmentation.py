"""Answers at positions: Dice, intersection over union and weighted cross entropy, for
tests/unit/nn/test_segmentation.c.

    python3 tests/data/segmentation.py > tests/data/segmentation.txt

Needs mpmath (Debian: python3-mpmath).  Nothing of Lockstep is used: positions of each class are kept as
sets, whose sizes are divided as fractions; the loss is written out with numbers of 60 digits, and its
gradients are not derived but measured, as central differences with a step of 1e-20.  Scores are multiples
of 1/64, exact in f32 and f64.  The output has 25 digits.

Format: one item a line: "case NAME SAMPLES ROWS COLUMNS CLASSES", then "scores : VALUE...", "labels :
VALUE...", "weights : VALUE...", and what comes of them: "metric NAME IGNORE : VALUE", where IGNORE are the
classes left out as "0,2", or "-"; "loss : VALUE", the sum over positions of weight times loss divided by
their number; "grad : VALUE...", of the scores.
"""
from fractions import Fraction

import mpmath as mp

mp.mp.dps = 60
STEP = mp.mpf(10) ** -20
state = 7


def draw():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return state >> 33


def overlap(truth, answer, classes, ignored, of):
    """The mean of of(A, B), sets of positions, over classes that occur; None: none do."""
    values = []
    for k in set(range(classes)) - ignored:
        a = {p for p, v in enumerate(answer) if v == k}
        b = {p for p, v in enumerate(truth) if v == k}
        if a | b:
            values.append(of(a, b))
    return sum(values) / len(values) if values else None


def dice(a, b):
    return Fraction(2 * len(a & b), len(a) + len(b))


def iou(a, b):
    return Fraction(len(a & b), len(a | b))


def cross(scores, labels, weights, classes):
    total = mp.mpf(0)
    for p, k in enumerate(labels):
        row = scores[p * classes:(p + 1) * classes]
        total += weights[k] * (mp.log(sum(mp.exp(v) for v in row)) - row[k])
    return total / len(labels)


def text(values):
    return " ".join(mp.nstr(v, 25) for v in values)


def case(name, samples, rows, columns, classes, drawn, weights):
    """Labels are below `drawn`: the other classes occur in answers at most."""
    n = samples * rows * columns
    scores = [mp.mpf(draw() % 257 - 128) / 64 for _ in range(n * classes)]
    labels = [draw() % drawn for _ in range(n)]
    if drawn < classes:  # a class that nobody has
        for p in range(n):
            scores[p * classes + classes - 1] = mp.mpf(-4)
    answer = [max(range(classes), key=lambda k, p=p: (scores[p * classes + k], -k))
              for p in range(n)]
    weights = [mp.mpf(w) for w in weights]
    print("case", name, samples, rows, columns, classes)
    print("scores :", text(scores))
    print("labels :", " ".join(map(str, labels)))
    print("weights :", text(weights))
    for metric in (dice, iou):
        for ignored in (set(), {0}, {0, 2}):
            if len(ignored) < classes:
                v = overlap(labels, answer, classes, ignored, metric)
                print("metric", metric.__name__, ",".join(map(str, sorted(ignored))) or "-", ":",
                      "nan" if v is None else mp.nstr(mp.mpf(v.numerator) / v.denominator, 25))
    print("loss :", mp.nstr(cross(scores, labels, weights, classes), 25))
    gradients = []
    for i in range(len(scores)):
        ends = []
        for step in (STEP, -STEP):
            moved = list(scores)
            moved[i] += step
            ends.append(cross(moved, labels, weights, classes))
        gradients.append((ends[0] - ends[1]) / (2 * STEP))
    print("grad :", text(gradients))


print("# Made by tests/data/segmentation.py, which says how; do not edit.  "
      "Committed: a reference from outside, and the build has neither Python nor mpmath.")
case("mask", 1, 4, 4, 2, 2, ["0.25", "1.75"])
case("organs", 2, 2, 3, 4, 3, ["1", "0.5", "2.25", "3"])
case("one", 1, 1, 3, 3, 3, ["0", "1", "0.125"])
