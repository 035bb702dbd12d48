"""Weights of local filters that are kept at unit norm, for tests/unit/nn/test_constrain.c.

    python3 tests/data/unit_norm.py > tests/data/unit_norm.txt

Needs mpmath (Debian: python3-mpmath).  Nothing of Lockstep is used: the network, an autoencoder of local
filters that gives back with the filters it took with, is written out as plain loops over numbers of 60
digits.  Its loss is half the sum of squares of what is missed, over the number of samples; gradients are
measured as central differences with a step of 1e-20, then w = w - rate g, then each row of w, all weights
of one position and filter, is divided by its Euclidean norm.  The weights that the first step begins with
are not.  Inputs are multiples of 1/64, exact in f32 and f64.  The output has 25 digits.

Format: one item a line: "tensor NAME DIM... : VALUE..." for the samples "x" and the weight to begin with;
for each step "loss VALUE", before the update, and "weight : VALUE...", behind it.
"""
import mpmath as mp

mp.mp.dps = 60
STEP = mp.mpf(10) ** -20
RATE = mp.mpf(1) / 8
SAMPLES, SIZE, KERNEL, CHANNELS, FILTERS, STEPS = 3, 4, 3, 1, 3, 4
POSITIONS = SIZE - KERNEL + 1
ROW = KERNEL * KERNEL * CHANNELS
state = 7


def draw(n):
    global state
    out = []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(mp.mpf((state >> 33) % 129 - 64) / 64)
    return out


def products():
    """(place in the image, place in the code, place in w) of all that is multiplied."""
    for r in range(POSITIONS):
        for c in range(POSITIONS):
            for a in range(KERNEL):
                for b in range(KERNEL):
                    for k in range(CHANNELS):
                        for f in range(FILTERS):
                            at = r * POSITIONS + c
                            tap = ((at * KERNEL + a) * KERNEL + b) * CHANNELS + k
                            yield ((r + a) * SIZE + c + b) * CHANNELS + k, at * FILTERS + f, tap * FILTERS + f


TABLE = list(products())


def loss_of(w, samples):
    total = mp.mpf(0)
    for x in samples:
        code = [mp.mpf(0)] * (POSITIONS * POSITIONS * FILTERS)
        back = [mp.mpf(0)] * len(x)
        for i, o, t in TABLE:
            code[o] += x[i] * w[t]
        for i, o, t in TABLE:
            back[i] += code[o] * w[t]
        total += sum((p - q) ** 2 for p, q in zip(back, x)) / 2
    return total / len(samples)


def normalised(w):
    w = list(w)
    for at in range(POSITIONS * POSITIONS):
        for f in range(FILTERS):
            row = [(at * ROW + j) * FILTERS + f for j in range(ROW)]
            norm = mp.sqrt(sum(w[i] ** 2 for i in row))
            for i in row:
                w[i] = w[i] / norm
    return w


def text(values):
    return " ".join(mp.nstr(v, 25, min_fixed=-5, max_fixed=5) for v in values)


n = SIZE * SIZE * CHANNELS
flat = draw(SAMPLES * n)
samples = [flat[i:i + n] for i in range(0, len(flat), n)]
w = [v / 4 for v in draw(POSITIONS * POSITIONS * ROW * FILTERS)]
print("# Made by tests/data/unit_norm.py, which says how; do not edit.  "
      "Committed: a reference from outside, and the build has neither Python nor mpmath.")
print("tensor x", SAMPLES, SIZE, SIZE, CHANNELS, ":", text(flat))
print("tensor weight", POSITIONS, POSITIONS, KERNEL, KERNEL, CHANNELS, FILTERS, ":", text(w))
for _ in range(STEPS):
    print("loss", text([loss_of(w, samples)]))
    slopes = []
    for e in range(len(w)):
        ends = [loss_of(w[:e] + [w[e] + h] + w[e + 1:], samples) for h in (STEP, -STEP)]
        slopes.append((ends[0] - ends[1]) / (2 * STEP))
    w = normalised([v - RATE * g for v, g in zip(w, slopes)])
    print("weight :", text(w))
