"""Local filtering, L2 pooling and local contrast normalisation in the shapes of neon's sparse autoencoder, for
tests/unit/nn/test_gb_layers.c.

    python3 tests/data/gb.py > tests/data/gb.txt

Needs nothing but Python.  Nothing of Lockstep is used: three times [filters of each position, norms of
windows of 3x3, contrast of windows of 3x3], of images 28x28x1 and 32x32x3, are plain loops over numbers of
double precision, and so are the gradients of sum(c y) for the image and all filters.  Numbers are drawn by
draw() below, which the test does too: multiples of 1/64.

Format: "case NAME SIZE CHANNELS", then for each layer what it makes, then the gradients: "value NAME COUNT :
SUM SCALE VALUE...": the sum of all elements, each times its weight (37 i mod 229 - 114) / 64, the sum of the
magnitudes of these products, and 16 of the elements, at i COUNT / 16.
"""
from math import exp, sqrt

FILTERS, KERNELS, POOL, WINDOW = 8, (4, 3, 3), 3, 3


def draw(stream, n):
    state, out = stream, []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(((state >> 33) % 129 - 64) / 64)
    return out


def products(size, kernel, channels):
    """(place in the image, place of a filter's output, place in w) of a local filtering."""
    n = size - kernel + 1
    for r in range(n):
        for c in range(n):
            for a in range(kernel):
                for b in range(kernel):
                    for k in range(channels):
                        image = ((r + a) * size + c + b) * channels + k
                        at = (((r * n + c) * kernel + a) * kernel + b) * channels + k
                        for f in range(FILTERS):
                            yield image, (r * n + c) * FILTERS + f, at * FILTERS + f


class Filter:
    def __init__(self, size, kernel, channels, stream):
        self.how, self.out = (size, kernel, channels), size - kernel + 1
        self.w = draw(stream, self.out ** 2 * kernel ** 2 * channels * FILTERS)

    def forward(self, x):
        self.x, y = x, [0.0] * (self.out ** 2 * FILTERS)
        for i, o, t in products(*self.how):
            y[o] += x[i] * self.w[t]
        return y

    def backward(self, e):
        dx, self.dw = [0.0] * len(self.x), [0.0] * len(self.w)
        for i, o, t in products(*self.how):
            dx[i] += e[o] * self.w[t]
            self.dw[t] += e[o] * self.x[i]
        return dx


class Norm:
    def __init__(self, size):
        self.size, self.out = size, size - POOL + 1

    def windows(self):
        for r in range(self.out):
            for c in range(self.out):
                for a in range(POOL):
                    for b in range(POOL):
                        for k in range(FILTERS):
                            yield ((r + a) * self.size + c + b) * FILTERS + k, (r * self.out + c) * FILTERS + k

    def forward(self, x):
        self.x, y = x, [0.0] * (self.out ** 2 * FILTERS)
        for i, o in self.windows():
            y[o] += x[i] * x[i]
        self.y = [sqrt(v) for v in y]
        return self.y

    def backward(self, e):
        dx = [0.0] * len(self.x)
        for i, o in self.windows():
            dx[i] += e[o] * self.x[i] / self.y[o] if self.y[o] != 0 else 0
        return dx


class Contrast:
    def __init__(self, size):
        self.size = self.out = size
        half = WINDOW // 2
        sigma = sqrt(2 * half * half) / 3
        g = {(a, b): exp(-(a * a + b * b) / (2 * sigma * sigma))
             for a in range(-half, half + 1) for b in range(-half, half + 1)}
        total = sum(g.values()) * FILTERS
        self.g = {q: v / total for q, v in g.items()}

    def blurred(self, x):
        """At each position the sum over the window and all channels of g x; nothing outside of the image."""
        n, out = self.size, []
        for r in range(n):
            for c in range(n):
                total = 0.0
                for (a, b), g in self.g.items():
                    if 0 <= r + a < n and 0 <= c + b < n:
                        for k in range(FILTERS):
                            total += g * x[((r + a) * n + c + b) * FILTERS + k]
                out.append(total)
        return out

    def centred(self, x):
        mean = self.blurred(x)
        return [x[i] - mean[i // FILTERS] for i in range(len(x))]

    def forward(self, x):
        self.v = self.centred(x)
        self.s = [sqrt(v) or 1.0 for v in self.blurred([v * v for v in self.v])]
        return [self.v[i] / self.s[i // FILTERS] for i in range(len(x))]

    def backward(self, e):
        per = [e[i] * self.v[i] / self.s[i // FILTERS] ** 3 for i in range(len(e))]
        pulls = self.blurred(per)  # g is symmetric
        dv = [e[i] / self.s[i // FILTERS] - self.v[i] * pulls[i // FILTERS] for i in range(len(e))]
        return self.centred(dv)


def show(name, values):
    terms = [v * (37 * i % 229 - 114) / 64 for i, v in enumerate(values)]
    some = [values[k * len(values) // 16] for k in range(16)]
    print("value", name, len(values), ":", " ".join(
        repr(v) for v in [sum(terms), sum(abs(t) for t in terms)] + some))


print("# Made by tests/data/gb.py, which says how; do not edit.  "
      "Committed: a reference from outside, and the build has no Python.")
for name, size, channels in (("mnist", 28, 1), ("cifar", 32, 3)):
    print("case", name, size, channels)
    layers, n, k = [], size, channels
    for stage, kernel in enumerate(KERNELS):
        for layer in (Filter(n, kernel, k, 10 + stage), Norm(n - kernel + 1), Contrast(n - kernel - POOL + 2)):
            layers.append((type(layer).__name__.lower() + str(stage + 1), layer))
            n = layer.out
        k = FILTERS
    x = draw(1, size * size * channels)
    for title, layer in layers:
        x = layer.forward(x)
        show(title, x)
    e = draw(2, len(x))
    for title, layer in reversed(layers):
        e = layer.backward(e)
        if isinstance(layer, Filter):
            show(title + ".weight", layer.dw)
    show("x", e)
