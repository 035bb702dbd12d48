"""Values and gradients of small networks, in high precision, for tests/unit/ops/test_networks.c.

    python3 tests/data/networks.py > tests/data/networks.txt

Needs mpmath (Debian: python3-mpmath).  Nothing of Lockstep is used: every network is written out as
plain loops over numbers of 80 digits.  Gradients are not derived but measured, as central differences
with a step of 1e-20 (their error is below 1e-35); a Hessian-vector product is a difference of such
gradients.  Inputs are multiples of 1/64, exact in f32 and f64.  The output has 25 digits.

Format: one item a line: "network NAME", then "tensor NAME DIM... : VALUE..." for inputs, "loss VALUE",
"grad NAME : VALUE..." for the inputs that are differentiated, and "hvp NAME : VALUE..." where there is
a direction "direction NAME : VALUE...".
"""
import itertools
import sys

import mpmath as mp

mp.mp.dps = 80
STEP = mp.mpf(10) ** -20


class Tensor:
    """A shape and its elements in row-major order."""

    def __init__(self, shape, data):
        self.shape, self.data = tuple(shape), list(data)

    def offset(self, index):
        at = 0
        for i, n in zip(index, self.shape):
            assert 0 <= i < n
            at = at * n + i
        return at

    def __getitem__(self, index):
        return self.data[self.offset(index if isinstance(index, tuple) else (index,))]


def make(shape, f):
    return Tensor(shape, [f(*i) for i in itertools.product(*(range(n) for n in shape))])


class Draw:
    """A generator of its own, so that the numbers are the same everywhere."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state >> 33

    def real(self, *shape, lo=-1, hi=1):
        n = (hi - lo) * 64
        return make(shape, lambda *_: lo + mp.mpf(self.next() % (n + 1)) / 64)

    def index(self, bound, *shape):
        return make(shape, lambda *_: mp.mpf(self.next() % bound))


# ---- layers, as their definitions read ----

def linear(x, w, b):
    return make((x.shape[0], w.shape[1]), lambda i, j: b[j] + sum(x[i, k] * w[k, j] for k in range(w.shape[0])))


def each(f, x):
    return Tensor(x.shape, [f(v) for v in x.data])


def softmax_cross_entropy(z, labels):
    n, c = z.shape
    total = 0
    for i in range(n):
        total += mp.log(sum(mp.exp(z[i, j]) for j in range(c))) - z[i, int(labels[i])]
    return total / n


def gelu(v):
    return v / 2 * (1 + mp.erf(v / mp.sqrt(2)))


def softplus(v):
    return mp.log(1 + mp.exp(v))


def elu(v):
    return v if v > 0 else mp.exp(v) - 1


def sigmoid(v):
    return 1 / (1 + mp.exp(-v))


def conv2d(x, w, b, stride, pad):
    n, h, wd, cin = x.shape
    kh, kw, _, cout = w.shape
    oh, ow = (h + 2 * pad - kh) // stride + 1, (wd + 2 * pad - kw) // stride + 1

    def at(s, i, j, o):
        total = b[o]
        for u, v, c in itertools.product(range(kh), range(kw), range(cin)):
            r, q = i * stride - pad + u, j * stride - pad + v
            if 0 <= r < h and 0 <= q < wd:
                total += x[s, r, q, c] * w[u, v, c, o]
        return total

    return make((n, oh, ow, cout), at)


def windows2d(x, size, f):
    n, h, w, c = x.shape
    return make((n, h // size, w // size, c), lambda s, i, j, k: f([x[s, i * size + u, j * size + v, k]
                for u in range(size) for v in range(size)]))


def flatten(x):
    n = x.shape[0]
    return Tensor((n, len(x.data) // n), x.data)


def normalise(values, eps):
    mean = sum(values) / len(values)
    var = sum((v - mean) ** 2 for v in values) / len(values)
    return [(v - mean) / mp.sqrt(var + eps) for v in values]


def layer_norm(x, gamma, beta, eps):
    rows = [normalise([x[i, j] for j in range(x.shape[1])], eps) for i in range(x.shape[0])]
    return make(x.shape, lambda i, j: gamma[j] * rows[i][j] + beta[j])


def batch_norm(x, gamma, beta, eps):
    cols = [normalise([x[i, j] for i in range(x.shape[0])], eps) for j in range(x.shape[1])]
    return make(x.shape, lambda i, j: gamma[j] * cols[j][i] + beta[j])


def conv_transpose1d(x, w, b, stride):
    """y[o] sums x[i] w[t] over o = i stride + t; w [kernel][out][in]."""
    n, length, cin = x.shape
    k, cout, _ = w.shape

    def at(s, o, c):
        total = b[c]
        for i, t, d in itertools.product(range(length), range(k), range(cin)):
            if i * stride + t == o:
                total += x[s, i, d] * w[t, c, d]
        return total

    return make((n, (length - 1) * stride + k, cout), at)


def lcn(x, size):
    """Local contrast normalisation: centre by a Gaussian mean over all channels, divide by the
    root of the Gaussian mean of squares; zero padding, and 1 where that root is 0."""
    n, h, w, c = x.shape
    mid = size // 2
    sigma = mp.sqrt(2 * mp.mpf(mid) ** 2) / 3
    g = {(u, v): mp.exp(-(u * u + v * v) / (2 * sigma ** 2)) for u in range(-mid, mid + 1) for v in range(-mid, mid + 1)}
    total = sum(g.values()) * c
    g = {k: v / total for k, v in g.items()}

    def mean(f, s, i, j):
        return sum(weight * f(s, i + u, j + v, k) for (u, v), weight in g.items() for k in range(c)
                   if 0 <= i + u < h and 0 <= j + v < w)

    means = make((n, h, w), lambda s, i, j: mean(lambda *p: x[p], s, i, j))
    v = make(x.shape, lambda s, i, j, k: x[s, i, j, k] - means[s, i, j])
    roots = make((n, h, w), lambda s, i, j: mp.sqrt(mean(lambda *p: v[p] ** 2, s, i, j)))
    return make(x.shape, lambda s, i, j, k: v[s, i, j, k] / (roots[s, i, j] if roots[s, i, j] != 0 else 1))


# ---- networks: name, inputs with a gradient, constants, loss ----

def mlp():
    d = Draw(1)
    p = {"w1": d.real(3, 5), "b1": d.real(5), "w2": d.real(5, 3), "b2": d.real(3)}
    c = {"x": d.real(4, 3), "labels": d.index(3, 4)}

    def loss(p):
        h = each(mp.tanh, linear(c["x"], p["w1"], p["b1"]))
        return softmax_cross_entropy(linear(h, p["w2"], p["b2"]), c["labels"])

    return p, c, loss


def cnn():
    d = Draw(2)
    p = {"w1": d.real(3, 3, 2, 3), "b1": d.real(3), "w2": d.real(18, 2), "b2": d.real(2)}
    c = {"x": d.real(2, 6, 4, 2), "t": d.real(2, 2)}

    def loss(p):
        y = each(gelu, conv2d(c["x"], p["w1"], p["b1"], 1, 1))
        y = windows2d(y, 2, lambda v: sum(v) / len(v))
        y = linear(flatten(y), p["w2"], p["b2"])
        return sum((a - b) ** 2 for a, b in zip(y.data, c["t"].data)) / len(y.data)

    return p, c, loss


def norms():
    d = Draw(3)
    p = {"x": d.real(4, 6, lo=-2, hi=2), "g1": d.real(6), "b1": d.real(6), "g2": d.real(6), "b2": d.real(6)}
    c = {"t": d.real(4, 6, lo=0, hi=1)}

    def loss(p):
        y = each(softplus, layer_norm(p["x"], p["g1"], p["b1"], mp.mpf(1) / 64))
        z = each(sigmoid, batch_norm(y, p["g2"], p["b2"], mp.mpf(1) / 64))
        return -sum(t * mp.log(y) + (1 - t) * mp.log(1 - y) for t, y in zip(c["t"].data, z.data)) / len(z.data)

    return p, c, loss


def attention():
    d = Draw(4)
    p = {"q": d.real(2, 3, 4), "k": d.real(2, 5, 4), "v": d.real(2, 5, 2)}

    def loss(p):
        q, k, v = p["q"], p["k"], p["v"]
        total = 0
        for s, i in itertools.product(range(2), range(3)):
            e = [mp.exp(sum(q[s, i, a] * k[s, j, a] for a in range(4)) / 2) for j in range(5)]
            row = [sum(e[j] * v[s, j, o] for j in range(5)) / sum(e) for o in range(2)]
            total += mp.sqrt(sum(r * r for r in row))
        return total

    return p, {}, loss


def rnn():
    d = Draw(5)
    p = {"table": d.real(5, 3), "wx": d.real(3, 4), "wh": d.real(4, 4), "b": d.real(4)}
    c = {"indices": d.index(5, 2, 4), "t": d.real(2, 4)}

    def loss(p):
        h = make((2, 4), lambda i, j: mp.mpf(0))
        for step in range(4):
            e = make((2, 3), lambda i, j: p["table"][int(c["indices"][i, step]), j])
            a, r = linear(e, p["wx"], p["b"]), linear(h, p["wh"], [mp.mpf(0)] * 4)
            h = make((2, 4), lambda i, j: mp.tanh(a[i, j] + r[i, j]))
        return sum((elu(y) - t) ** 2 for y, t in zip(h.data, c["t"].data)) / 2

    return p, c, loss


def poolnet():
    d = Draw(6)
    p = {"x": d.real(2, 4, 2), "w": d.real(3, 3, 2), "b": d.real(3)}

    def loss(p):
        y = conv_transpose1d(p["x"], p["w"], p["b"], 2)  # [2, 9, 3]
        l2 = make((2, 4, 3), lambda s, i, c: mp.sqrt(y[s, 2 * i, c] ** 2 + y[s, 2 * i + 1, c] ** 2))
        top = make((2, 2, 3), lambda s, i, c: max(l2[s, 2 * i, c], l2[s, 2 * i + 1, c]))
        return sum(mp.log(1 + v * v) * mp.cos(v) + mp.sin(v) ** 3 for v in top.data)

    return p, {}, loss


def contrast():
    d = Draw(7)
    p = {"x": d.real(1, 5, 6, 2)}
    c = {"t": d.real(1, 5, 6, 2)}
    return p, c, lambda p: sum(a * b for a, b in zip(lcn(p["x"], 3).data, c["t"].data))


# ---- measuring ----

def moved(p, name, e, h):
    q = dict(p)
    data = list(p[name].data)
    data[e] += h
    q[name] = Tensor(p[name].shape, data)
    return q


def gradient(p, loss):
    return {name: [(loss(moved(p, name, e, STEP)) - loss(moved(p, name, e, -STEP))) / (2 * STEP)
                   for e in range(len(t.data))] for name, t in p.items()}


def along(p, v, h):
    return {name: Tensor(t.shape, [a + h * b for a, b in zip(t.data, v[name].data)]) for name, t in p.items()}


def text(values):
    return " ".join(mp.nstr(v, 25, min_fixed=-5, max_fixed=5) for v in values)


def show(name, p, c, loss, direction=None):
    print("network", name)
    for key, t in list(p.items()) + list(c.items()):
        print("tensor", key, *t.shape, ":", text(t.data))
    print("loss", text([loss(p)]))
    for key, g in gradient(p, loss).items():
        print("grad", key, ":", text(g))
    if direction:
        h = mp.mpf(10) ** -12
        up, down = gradient(along(p, direction, h), loss), gradient(along(p, direction, -h), loss)
        for key in p:
            print("direction", key, ":", text(direction[key].data))
        for key in p:
            print("hvp", key, ":", text([(a - b) / (2 * h) for a, b in zip(up[key], down[key])]))


def main():
    print("# Made by tests/data/networks.py, which says how; do not edit.  "
          "Committed: a reference from outside, and the build has neither Python nor mpmath.")
    for f in (mlp, cnn, norms, attention, rnn, poolnet, contrast):
        p, c, loss = f()
        d = Draw(100)
        direction = {k: d.real(*t.shape) for k, t in p.items()} if f in (mlp, attention, norms) else None
        show(f.__name__, p, c, loss, direction)
        print(f.__name__, file=sys.stderr)


main()
