"""Values and gradients of networks whose residual blocks concatenate, for tests/unit/nn/test_joined.c.

    python3 tests/data/joined.py > tests/data/joined.txt

Needs mpmath (Debian: python3-mpmath).  Nothing of Lockstep is used: every network is written out as
plain loops over numbers of 60 digits, x first and what was made of it behind it.  Gradients are not
derived but measured, as central differences with a step of 1e-20.  Inputs are multiples of 1/64, exact
in f32 and f64.  The output has 25 digits.

Format: one item a line: "network NAME", then "tensor NAME DIM... : VALUE..." for the input "x", the
weights "c" of the outputs in the loss, and the parameters; "loss VALUE" and "grad NAME : VALUE..." for
x and the parameters.
"""
import itertools

import mpmath as mp

mp.mp.dps = 60
STEP = mp.mpf(10) ** -20
state = 1


def draw(n):
    global state
    out = []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(mp.mpf((state >> 33) % 129 - 64) / 64)
    return out


# A sample is a dict from positions, (row, column), to lists of channels; so are its sizes told.

def image(flat, rows, columns, channels):
    at = iter(flat)
    return {p: [next(at) for _ in range(channels)]
            for p in itertools.product(range(rows), range(columns))}


def each(x, f):
    return {p: [f(v) for v in channels] for p, channels in x.items()}


def behind(first, second):
    """The channels of the first, then those of the second."""
    assert set(first) == set(second)
    return {p: first[p] + second[p] for p in first}


def pool(x):
    """Means of 2 x 2 positions."""
    return {(i // 2, j // 2): [sum(x[i + a, j + b][c] for a in (0, 1) for b in (0, 1)) / 4
                               for c in range(len(x[i, j]))]
            for i, j in x if i % 2 == 0 and j % 2 == 0}


def conv(x, w, b, size):
    """w is [size][size][in][out], positions outside are 0."""
    y, at, m, n = {}, size // 2, len(x[0, 0]), len(b)
    for i, j in x:
        y[i, j] = list(b)
        for u, v in itertools.product(range(size), range(size)):
            if (i + u - at, j + v - at) in x:
                for k, o in itertools.product(range(m), range(n)):
                    y[i, j][o] += x[i + u - at, j + v - at][k] * w[((u * size + v) * m + k) * n + o]
    return y


def up(x, w, b):
    """Each position becomes 2 x 2 ones; w is [2][2][out][in]."""
    y, m, n = {}, len(x[0, 0]), len(b)
    for i, j in x:
        for u, v in itertools.product((0, 1), (0, 1)):
            y[2 * i + u, 2 * j + v] = [
                b[o] + sum(x[i, j][k] * w[((u * 2 + v) * n + o) * m + k] for k in range(m))
                for o in range(n)]
    return y


def linear(x, w, b):
    """w is [in][out]."""
    return {p: [b[o] + sum(v * w[k * len(b) + o] for k, v in enumerate(row))
                for o in range(len(b))] for p, row in x.items()}


def vectors(p, x):
    h = each(linear(x, p["residual1.linear1.weight"], p["residual1.linear1.bias"]), mp.tanh)
    return linear(behind(x, h), p["linear1.weight"], p["linear1.bias"])


def shortcut(p, x):
    h = linear(x, p["residual1.linear1.weight"], p["residual1.linear1.bias"])
    s = each(linear(x, p["residual1.shortcut.linear1.weight"],
                    p["residual1.shortcut.linear1.bias"]), mp.tanh)
    return behind(s, h)


def unet(p, x):
    def parameters(name):
        return p[name + ".weight"], p[name + ".bias"]

    x = each(conv(x, *parameters("conv1"), 3), mp.tanh)
    h = each(conv(pool(x), *parameters("residual1.conv1"), 1), mp.tanh)
    g = each(conv(pool(h), *parameters("residual1.residual1.conv1"), 1), mp.tanh)
    h = behind(h, up(g, *parameters("residual1.residual1.conv_transpose1")))
    h = up(each(h, mp.tanh), *parameters("residual1.conv_transpose1"))
    return conv(behind(x, h), *parameters("conv2"), 3)


NETWORKS = [
    (vectors, {"x": (2, 1, 1, 3), "c": (2, 1, 1, 2), "residual1.linear1.weight": (3, 2),
               "residual1.linear1.bias": (2,), "linear1.weight": (5, 2), "linear1.bias": (2,)}),
    (shortcut, {"x": (2, 1, 1, 3), "c": (2, 1, 1, 5), "residual1.linear1.weight": (3, 3),
                "residual1.linear1.bias": (3,), "residual1.shortcut.linear1.weight": (3, 2),
                "residual1.shortcut.linear1.bias": (2,)}),
    (unet, {"x": (2, 4, 4, 1), "c": (2, 4, 4, 2), "conv1.weight": (3, 3, 1, 2), "conv1.bias": (2,),
            "residual1.conv1.weight": (1, 1, 2, 3), "residual1.conv1.bias": (3,),
            "residual1.residual1.conv1.weight": (1, 1, 3, 2), "residual1.residual1.conv1.bias": (2,),
            "residual1.residual1.conv_transpose1.weight": (2, 2, 1, 2),
            "residual1.residual1.conv_transpose1.bias": (1,),
            "residual1.conv_transpose1.weight": (2, 2, 1, 4), "residual1.conv_transpose1.bias": (1,),
            "conv2.weight": (3, 3, 3, 2), "conv2.bias": (2,)}),
]


def text(values):
    return " ".join(mp.nstr(v, 25, min_fixed=-5, max_fixed=5) for v in values)


print("# Made by tests/data/joined.py, which says how; do not edit.  "
      "Committed: a reference from outside, and the build has neither Python nor mpmath.")
for network, shapes in NETWORKS:
    p = {}
    for name, shape in shapes.items():
        n = 1
        for d in shape:
            n *= d
        p[name] = draw(n)
    samples, rows, columns, channels = shapes["x"]

    def loss(q):
        n, total, c = rows * columns * channels, mp.mpf(0), iter(q["c"])
        for s in range(samples):
            y = network(q, image(q["x"][s * n:(s + 1) * n], rows, columns, channels))
            total += sum(v * next(c) for at in sorted(y) for v in y[at])
        return total

    print("network", network.__name__)
    for name, shape in shapes.items():
        print("tensor", name, *shape, ":", text(p[name]))
    print("loss", text([loss(p)]))
    for name in shapes:
        if name == "c":
            continue
        slopes = []
        for e in range(len(p[name])):
            ends = []
            for h in (STEP, -STEP):
                moved = list(p[name])
                moved[e] += h
                ends.append(loss({**p, name: moved}))
            slopes.append((ends[0] - ends[1]) / (2 * STEP))
        print("grad", name, ":", text(slopes))
