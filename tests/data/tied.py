"""Values and gradients of networks whose layers share a weight, for tests/unit/nn/test_tie.c.

    python3 tests/data/tied.py > tests/data/tied.txt

Needs mpmath (Debian: python3-mpmath).  Nothing of Lockstep is used: every network is written out as
plain loops over numbers of 60 digits, with one variable for the weight that is used several times.
Gradients are not derived but measured, as central differences with a step of 1e-20.  Inputs are
multiples of 1/64, exact in f32 and f64.  The output has 25 digits.

Format: one item a line: "network NAME", then "tensor NAME DIM... : VALUE..." for the input "x", the
weights "c" of the outputs in the loss, and the parameters; "loss VALUE" and "grad NAME : VALUE..." for
the parameters.
"""
import mpmath as mp

mp.mp.dps = 60
STEP = mp.mpf(10) ** -20
state = 1


def draw(n, whole=0):
    global state
    out = []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        v = state >> 33
        out.append(mp.mpf(v % whole) if whole else mp.mpf(v % 129 - 64) / 64)
    return out


def rows(flat, n):
    return [flat[i:i + n] for i in range(0, len(flat), n)]


def linear(x, w, b):
    """w is [in][out], as rows."""
    return [[b[j] + sum(r[k] * w[k][j] for k in range(len(w))) for j in range(len(w[0]))] for r in x]


def turned(w):
    return [list(column) for column in zip(*w)]


def tanh(x):
    return [[mp.tanh(v) for v in r] for r in x]


def words(p):
    table = rows(p["embedding1.weight"], 3)
    x = [table[int(i)] for i in p["x"]]
    return linear(tanh(x), turned(table), p["linear1.bias"])


def autoencoder(p):
    w = rows(p["linear1.weight"], 2)
    h = tanh(linear(rows(p["x"], 3), w, p["linear1.bias"]))
    return linear(h, turned(w), p["linear2.bias"])


def thrice(p):
    w = rows(p["linear1.weight"], 3)
    h = tanh(linear(rows(p["x"], 3), w, p["linear1.bias"]))
    h = tanh(linear(h, w, p["linear2.bias"]))
    return linear(h, turned(w), p["linear3.bias"])


def taps(size, kernel, stride, pad):
    """(position, tap, place) of all taps of all windows along an axis that are no padding."""
    n = (size + 2 * pad - kernel) // stride + 1
    return [(o, t, o * stride + t - pad) for o in range(n) for t in range(kernel)
            if 0 <= o * stride + t - pad < size]


def filtered(image, w, axes, channels, filters):
    """Local filtering of one image, flat lists: axes are (size, kernel, stride, pad) of rows and columns; w is
    [positions of rows][of columns][kernel][kernel][channels][filters]."""
    (h, kh, sh, ph), (v, kv, sv, pv) = axes
    rows_out, columns_out = (h + 2 * ph - kh) // sh + 1, (v + 2 * pv - kv) // sv + 1
    out = [mp.mpf(0)] * (rows_out * columns_out * filters)
    for r, a, i in taps(*axes[0]):
        for c, b, j in taps(*axes[1]):
            for k in range(channels):
                for f in range(filters):
                    at = ((((r * columns_out + c) * kh + a) * kv + b) * channels + k) * filters + f
                    out[(r * columns_out + c) * filters + f] += image[(i * v + j) * channels + k] * w[at]
    return out


def defiltered(code, w, axes, channels, filters):
    """Its transpose: what each window has got is given back to all it was made of."""
    (h, kh, _, _), (v, kv, sv, pv) = axes
    columns_out = (v + 2 * pv - kv) // sv + 1
    out = [mp.mpf(0)] * (h * v * channels)
    for r, a, i in taps(*axes[0]):
        for c, b, j in taps(*axes[1]):
            for k in range(channels):
                for f in range(filters):
                    at = ((((r * columns_out + c) * kh + a) * kv + b) * channels + k) * filters + f
                    out[(i * v + j) * channels + k] += code[(r * columns_out + c) * filters + f] * w[at]
    return out


def codec(p, axes, channels, filters, back):
    out = []
    for image in rows(p["x"], axes[0][0] * axes[1][0] * channels):
        code = filtered(image, p["code.weight"], axes, channels, filters)
        out.append(defiltered([mp.tanh(v) for v in code], p[back], axes, channels, filters))
    return out


def plane(p):
    return codec(p, ((3, 2, 1, 0), (3, 2, 1, 0)), 1, 2, "code.weight")


def series(p):
    """The stride leaves a position over at the end, which no window reaches."""
    return codec(p, ((1, 1, 1, 0), (6, 3, 2, 0)), 1, 2, "code.weight")


def padded(p):
    return codec(p, ((2, 3, 2, 1), (3, 2, 2, 1)), 1, 2, "code.weight")


def apart(p):
    return codec(p, ((3, 2, 1, 0), (2, 2, 1, 0)), 1, 2, "local_conv_transpose1.weight")


NETWORKS = [
    (words, {"x": (6,), "c": (6, 5), "embedding1.weight": (5, 3), "linear1.bias": (5,)}),
    (autoencoder, {"x": (6, 3), "c": (6, 3), "linear1.weight": (3, 2), "linear1.bias": (2,),
                   "linear2.bias": (3,)}),
    (thrice, {"x": (6, 3), "c": (6, 3), "linear1.weight": (3, 3), "linear1.bias": (3,),
              "linear2.bias": (3,), "linear3.bias": (3,)}),
    (plane, {"x": (6, 3, 3, 1), "c": (6, 3, 3, 1), "code.weight": (2, 2, 2, 2, 1, 2)}),
    (series, {"x": (6, 6, 1), "c": (6, 6, 1), "code.weight": (2, 3, 1, 2)}),
    (padded, {"x": (6, 2, 3, 1), "c": (6, 2, 3, 1), "code.weight": (1, 2, 3, 2, 1, 2)}),
    (apart, {"x": (6, 3, 2, 1), "c": (6, 3, 2, 1), "code.weight": (2, 1, 2, 2, 1, 2),
             "local_conv_transpose1.weight": (2, 1, 2, 2, 1, 2)}),
]


def text(values):
    return " ".join(mp.nstr(v, 25, min_fixed=-5, max_fixed=5) for v in values)


print("# Made by tests/data/tied.py, which says how; do not edit.  "
      "Committed: a reference from outside, and the build has neither Python nor mpmath.")
for network, shapes in NETWORKS:
    p = {}
    for name, shape in shapes.items():
        n = 1
        for d in shape:
            n *= d
        p[name] = draw(n, 5 if name == "x" and network is words else 0)

    def loss(q):
        return sum(c * y for c, y in zip(q["c"], sum(network(q), [])))

    print("network", network.__name__)
    for name, shape in shapes.items():
        print("tensor", name, *shape, ":", text(p[name]))
    print("loss", text([loss(p)]))
    for name in list(shapes)[2:]:
        slopes = []
        for e in range(len(p[name])):
            ends = []
            for h in (STEP, -STEP):
                moved = list(p[name])
                moved[e] += h
                ends.append(loss({**p, name: moved}))
            slopes.append((ends[0] - ends[1]) / (2 * STEP))
        print("grad", name, ":", text(slopes))
