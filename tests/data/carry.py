"""Values and gradients of recurrent networks that begin with a carry, for tests/unit/nn/test_carry_values.c.

    python3 tests/data/carry.py > tests/data/carry.txt

Needs mpmath (Debian: python3-mpmath).  Nothing of Lockstep is used: every cell is written out for one
sample and one time, over numbers of 60 digits.  Gradients are not derived but measured, as central
differences with a step of 1e-20.  Inputs are multiples of 1/64, exact in f32 and f64.  The output has 25
digits.

The loss is the sum of c * y over all outputs, plus that of d * last over what is carried at the end.

Format: one item a line: "network NAME", then "tensor NAME DIM... : VALUE..." for the input "x", the
weights "c" and "d.CARRY", the carry at first "first.CARRY" and the parameters; "loss VALUE";
"last CARRY : VALUE..."; and "grad NAME : VALUE..." for x, the carry at first and the parameters.
"""
import mpmath as mp

mp.mp.dps = 60
STEP = mp.mpf(10) ** -20
SAMPLES, TIMES, FEATURES = 2, 5, 2
state = 1


def draw(n):
    global state
    out = []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(mp.mpf((state >> 33) % 129 - 64) / 64)
    return out


def sigmoid(v):
    return 1 / (1 + mp.exp(-v))


def row(v, w, first, n):
    """v times columns first to first + n - 1 of w, whose rows follow each other."""
    wide = len(w) // len(v)
    return [sum(v[k] * w[k * wide + first + j] for k in range(len(v))) for j in range(n)]


def gate(p, name, x, h, i):
    """Gate number i: what the input says, and what the state says."""
    n = len(h)
    b = p[name + ".bias"][i * n:(i + 1) * n]
    return ([s + t for s, t in zip(row(x, p[name + ".weight"], i * n, n), b)],
            row(h, p[name + ".recurrent"], i * n, n))


def both(p, name, x, h, i):
    return [s + t for s, t in zip(*gate(p, name, x, h, i))]


def rnn(p, name, x, carry):
    return [[mp.tanh(v) for v in both(p, name, x, carry[0], 0)]]


def gru(p, name, x, carry):
    h = carry[0]
    r = [sigmoid(v) for v in both(p, name, x, h, 0)]
    z = [sigmoid(v) for v in both(p, name, x, h, 1)]
    xn, sn = gate(p, name, x, h, 2)
    n = [mp.tanh(a + q * (s + b)) for a, q, s, b in zip(xn, r, sn, p[name + ".recurrent_bias"])]
    return [[(1 - u) * v + u * w for u, v, w in zip(z, n, h)]]


def lstm(p, name, x, carry):
    h, c = carry
    i = [sigmoid(v) for v in both(p, name, x, h, 0)]
    f = [sigmoid(v + 1) for v in both(p, name, x, h, 1)]
    g = [mp.tanh(v) for v in both(p, name, x, h, 2)]
    o = [sigmoid(v) for v in both(p, name, x, h, 3)]
    c = [u * v + w * t for u, v, w, t in zip(f, c, i, g)]
    return [[u * mp.tanh(v) for u, v in zip(o, c)], c]


CELLS = {"rnn": (rnn, 1, "h"), "gru": (gru, 3, "h"), "lstm": (lstm, 4, "hc")}
NETWORKS = {"rnn": [("rnn", 3)], "gru": [("gru", 3)], "lstm": [("lstm", 3)],
            "deep": [("lstm", 2), ("gru", 3), ("rnn", 2)]}


def shapes_of(layers):
    out = {"x": (SAMPLES, TIMES, FEATURES), "c": (SAMPLES, TIMES, layers[-1][1])}
    wide = FEATURES
    for kind, units in layers:
        for carry in CELLS[kind][2]:
            out["first.%s1.%s" % (kind, carry)] = out["d.%s1.%s" % (kind, carry)] = (SAMPLES, units)
    for kind, units in layers:
        gates = CELLS[kind][1]
        out[kind + "1.weight"] = (wide, gates * units)
        out[kind + "1.recurrent"] = (units, gates * units)
        out[kind + "1.bias"] = (gates * units,)
        if kind == "gru":
            out[kind + "1.recurrent_bias"] = (units,)
        wide = units
    return out


def part(flat, n, i):
    return flat[i * n:(i + 1) * n]


def run(p, layers):
    """The outputs, flat, and what each layer carries at the end, flat by name."""
    ys, last = [], {}
    for s in range(SAMPLES):
        xs = [part(p["x"], FEATURES, s * TIMES + t) for t in range(TIMES)]
        for kind, units in layers:
            cell, _, carries = CELLS[kind]
            carry = [part(p["first.%s1.%s" % (kind, k)], units, s) for k in carries]
            for t in range(TIMES):
                carry = cell(p, kind + "1", xs[t], carry)
                xs[t] = carry[0]
            for k, v in zip(carries, carry):
                last.setdefault("%s1.%s" % (kind, k), []).extend(v)
        ys += sum(xs, [])
    return ys, last


def loss(p, layers):
    ys, last = run(p, layers)
    total = sum(c * y for c, y in zip(p["c"], ys))
    return total + sum(d * v for k in last for d, v in zip(p["d." + k], last[k]))


def text(values):
    return " ".join(mp.nstr(v, 25, min_fixed=-5, max_fixed=5) for v in values)


print("# Made by tests/data/carry.py, which says how; do not edit.  "
      "Committed: a reference from outside, and the build has neither Python nor mpmath.")
for network, layers in NETWORKS.items():
    shapes = shapes_of(layers)
    p = {}
    for name, shape in shapes.items():
        n = 1
        for size in shape:
            n *= size
        p[name] = draw(n)
    print("network", network)
    for name, shape in shapes.items():
        print("tensor", name, *shape, ":", text(p[name]))
    print("loss", text([loss(p, layers)]))
    for name, values in run(p, layers)[1].items():
        print("last", name, ":", text(values))
    for name in shapes:
        if name == "c" or name.startswith("d."):
            continue
        slopes = []
        for e in range(len(p[name])):
            ends = []
            for h in (STEP, -STEP):
                moved = list(p[name])
                moved[e] += h
                ends.append(loss({**p, name: moved}, layers))
            slopes.append((ends[0] - ends[1]) / (2 * STEP))
        print("grad", name, ":", text(slopes))
