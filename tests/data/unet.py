"""Values and gradients of the named model unet, and how many parameters it has, for
tests/unit/models/test_unet.c.

    python3 tests/data/unet.py > tests/data/unet.txt

Needs mpmath (Debian: python3-mpmath).  Nothing of Lockstep is used: the network is written out as plain
loops over numbers of 40 digits, for any number of spatial axes.  Sizes are halved rounding up, and what
was doubled is cut at its end to the size that it had before.  Gradients are not derived but measured, as
central differences with a step of 1e-14.  Inputs are multiples of 1/64, exact in f32 and f64.  The output
has 20 digits.

Format: one item a line: "network NAME OPTIONS", then "tensor NAME DIM... : VALUE..." for the input "x",
the weights "c" of the outputs in the loss, and the parameters; "loss VALUE" and "grad NAME : VALUE..."
for x and the parameters.  "count DIMS OPTIONS : PARAMETERS" for samples of DIMS, such as 8x8x1.
"""
import itertools

import mpmath as mp

mp.mp.dps = 40
STEP = mp.mpf(10) ** -14
EPS = mp.mpf("1e-5")
state = 3


def draw(n):
    global state
    out = []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(mp.mpf((state >> 33) % 129 - 64) / 64)
    return out


# A batch is a list of samples: dicts from positions, tuples of any length, to lists of channels.

def positions(sizes):
    return itertools.product(*map(range, sizes))


def sizes_of(x):
    return [max(p[d] for p in x[0]) + 1 for d in range(len(next(iter(x[0]))))]


def each(x, f):
    return [{p: f(v) for p, v in sample.items()} for sample in x]


def relu(x):
    return each(x, lambda v: [max(u, mp.mpf(0)) for u in v])


def conv(x, w, b, size):
    """w is [size...][in][out], positions outside are 0."""
    n = len(sizes_of(x))
    first = next(iter(x[0].values()))
    outs = len(w) // (size**n * len(first))

    def at(sample, p):
        y = list(b) if b else [mp.mpf(0)] * outs
        for t, tap in enumerate(itertools.product(range(size), repeat=n)):
            q = tuple(i + u - size // 2 for i, u in zip(p, tap))
            for k, v in enumerate(sample.get(q, ())):
                for o in range(outs):
                    y[o] += v * w[(t * len(first) + k) * outs + o]
        return y
    return [{p: at(s, p) for p in s} for s in x]


def pool(x):
    """The largest of 2 positions along each axis; the last may have one."""
    out = []
    for sample in x:
        y = {}
        for p, v in sample.items():
            q = tuple(i // 2 for i in p)
            y[q] = [max(a, b) for a, b in zip(y[q], v)] if q in y else v
        out.append(y)
    return out


def transpose(x, w, b, sizes):
    """Positions become 2 along each axis, up to `sizes`; w is [2...][out][in]."""
    out = []
    for sample in x:
        y = {}
        for p in positions(sizes):
            v = sample[tuple(i // 2 for i in p)]
            tap = 0
            for i in p:
                tap = 2 * tap + i % 2
            y[p] = [b[o] + sum(v[k] * w[(tap * len(b) + o) * len(v) + k] for k in range(len(v)))
                    for o in range(len(b))]
        out.append(y)
    return out


def repeat(x, sizes):
    return [{p: s[tuple(i // 2 for i in p)] for p in positions(sizes)} for s in x]


def batch_norm(x, gamma, beta):
    out = [dict() for _ in x]
    n = sum(map(len, x))
    for c in range(len(gamma)):
        mean = sum(v[c] for s in x for v in s.values()) / n
        variance = sum((v[c] - mean) ** 2 for s in x for v in s.values()) / n
        for s, y in zip(x, out):
            for p, v in s.items():
                y.setdefault(p, []).append(
                    (v[c] - mean) / mp.sqrt(variance + EPS) * gamma[c] + beta[c])
    return out


def layer_norm(x, gamma, beta):
    def at(v):
        mean = sum(v) / len(v)
        variance = sum((u - mean) ** 2 for u in v) / len(v)
        return [(u - mean) / mp.sqrt(variance + EPS) * g + b for u, g, b in zip(v, gamma, beta)]
    return each(x, at)


class Unet:
    """Walks through the network; `parameter(name, shape)` gives the values, None where none are wanted."""

    def __init__(self, parameter, axes, depth, width, most, convs, norm, up, classes):
        self.parameter, self.axes, self.depth, self.width, self.most = \
            parameter, axes, depth, width, most
        self.convs, self.norm, self.up, self.classes = convs, norm, up, classes
        self.ins = 0  # channels of x

    def conv_layer(self, x, prefix, number, outs, size, bias):
        name = "%sconv%d." % (prefix, number)
        w = self.parameter(name + "weight", (size,) * self.axes + (self.ins, outs))
        b = self.parameter(name + "bias", (outs,)) if bias else None
        self.ins = outs
        return conv(x, w, b, size) if x else x

    def convs_of(self, x, prefix, first, width):
        for i in range(first, first + self.convs):
            x = self.conv_layer(x, prefix, i, width, 3, self.norm == "none")
            if self.norm != "none":
                name = "%s%s_norm%d." % (prefix, self.norm, i)
                gamma, beta = (self.parameter(name + n, (width,)) for n in ("gamma", "beta"))
                if x:
                    x = (batch_norm if self.norm == "batch" else layer_norm)(x, gamma, beta)
            x = relu(x) if x else x
        return x

    def level(self, x, k, prefix):
        width = min(self.width << k, self.most)
        x = self.convs_of(x, prefix, 1, width)
        if k == self.depth:
            return x
        inner, above = prefix + "residual1.", self.ins
        y = self.level(pool(x) if x else x, k + 1, inner)
        convs = 2 * self.convs if k + 1 < self.depth else self.convs
        sizes = sizes_of(x) if x else None
        if self.up == "transpose":
            name = inner + "conv_transpose1."
            w = self.parameter(name + "weight", (2,) * self.axes + (width, self.ins))
            b = self.parameter(name + "bias", (width,))
            y = transpose(y, w, b, sizes) if x else y
        else:
            y = repeat(y, sizes) if x else y
            y = self.conv_layer(y, inner, convs + 1, width, 3, True)
        if x:
            x = [{p: s[p] + t[p] for p in s} for s, t in zip(x, y)]
        self.ins = above + width
        return self.convs_of(x, prefix, self.convs + 1, width)

    def run(self, x, channels):
        self.ins = channels
        x = self.level(x, 0, "")
        return self.conv_layer(x, "", 2 * self.convs + 1, self.classes, 1, True)


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


DEFAULTS = dict(depth=4, width=64, most=1024, convs=2, norm="batch", up="transpose", classes=2)


def text(values):
    return " ".join(mp.nstr(v, 20) for v in values)


def network(name, shape, **given):
    """shape: samples, sizes, channels."""
    o = {**DEFAULTS, **given}
    tensors, order = {}, []

    def parameter(key, shape):
        if key not in tensors:
            tensors[key] = draw(count(shape))
            if not key.endswith("weight"):  # so that most positions pass the relu
                tensors[key] = [(abs(v) + key.endswith("gamma")) / 2 for v in tensors[key]]
            order.append((key, shape))
        return tensors[key]

    tensors["x"] = draw(count(shape))
    outs = count(shape[:-1]) * o["classes"]
    tensors["c"] = draw(outs)

    def loss():
        at = iter(tensors["x"])
        x = [{p: [next(at) for _ in range(shape[-1])] for p in positions(shape[1:-1])}
             for _ in range(shape[0])]
        y = Unet(parameter, len(shape) - 2, **o).run(x, shape[-1])
        flat = [v for s in y for p in sorted(s) for v in s[p]]
        assert len(flat) == outs
        return sum(a * b for a, b in zip(flat, tensors["c"]))

    value = loss()
    options = " ".join("%s=%s" % item for item in given.items())
    print("network", name, options)
    for key, dims in [("x", shape), ("c", shape[:-1] + (o["classes"],))] + order:
        print("tensor", key, *dims, ":", text(tensors[key]))
    print("loss", mp.nstr(value, 20))
    for key, _ in [("x", shape)] + order:
        gradient = []
        for i in range(len(tensors[key])):
            ends = []
            was = tensors[key][i]
            for step in (STEP, -STEP):
                tensors[key][i] = was + step
                ends.append(loss())
            tensors[key][i] = was
            gradient.append((ends[0] - ends[1]) / (2 * STEP))
        print("grad", key, ":", text(gradient))


def parameters(shape, **given):
    """shape: sizes, channels."""
    sizes = []

    def parameter(key, shape):
        sizes.append(count(shape))

    Unet(parameter, len(shape) - 1, **{**DEFAULTS, **given}).run(None, shape[-1])
    print("count", "x".join(map(str, shape)), *("%s=%s" % item for item in given.items()), ":",
          sum(sizes))


print("# Made by tests/data/unet.py, which says how; do not edit.  "
      "Committed: a reference from outside, and the build has neither Python nor mpmath.")
network("image", (1, 5, 3, 1), depth=2, width=1, convs=1, norm="none")
network("volume", (2, 3, 1, 2, 1), depth=1, width=1, most=1, convs=1, norm="batch", up="repeat",
        classes=3)
network("row", (1, 6, 2), depth=1, width=3, convs=2, norm="layer")
parameters((8, 8, 1), norm="none")
parameters((8, 8, 3), classes=5)
parameters((8, 8, 8, 1), depth=3, width=8, up="repeat", norm="layer", most=32, convs=1)
