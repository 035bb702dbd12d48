"""Losses of the first 50 steps of three presets, and of 20 steps of each phase of a fourth, in double
precision, for tests/cli/train/test_curves.sh.

    /usr/bin/python3 tests/data/curves.py build/lockstep > tests/data/curves.txt

Needs PyTorch and NumPy (Debian: python3-torch, python3-numpy).  Of Lockstep it uses two things: the
initial weights (`lockstep train` for 0 epochs) and the generated images (`lockstep data convert`).
All else is written here from its definition: the random numbers that choose, crop and flip samples
(Philox under keys of XXH64, include/lockstep/rng.h), normalisation, the networks, losses, schedules
and update rules; gradients are PyTorch's.

Format: "curve PRESET OVERRIDE...", then one line for each step: the mean loss of its batch before the
update, computed in f64, and how far the same program in f32 has been from it up to that step of the
phase, at most.  Training is chaotic: a rounding error grows from step to step, the faster the deeper the
network, and the second number says by how much it does in arithmetic of that precision.
"""
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

STEPS = 50
M64 = 2**64 - 1
P = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
     2870177450012600261)


# ---- random numbers ----

def rotate(v, n):
    return (v << n | v >> 64 - n) & M64


def xxh64(data):
    """XXH64 with seed 0."""
    def mix(acc, lane):
        return rotate((acc + lane * P[1]) & M64, 31) * P[0] & M64

    at, n = 0, len(data)
    if n >= 32:
        acc = [(P[0] + P[1]) & M64, P[1], 0, -P[0] & M64]
        while at + 32 <= n:
            acc = [mix(a, v) for a, v in zip(acc, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotate(a, r) for a, r in zip(acc, (1, 7, 12, 18))) & M64
        for a in acc:
            h = ((h ^ mix(0, a)) * P[0] + P[3]) & M64
    else:
        h = P[4]
    h = (h + n) & M64
    while at + 8 <= n:
        h = (rotate(h ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * P[0] + P[3]) & M64
        at += 8
    if at + 4 <= n:
        word = struct.unpack_from("<I", data, at)[0]
        h = (rotate(h ^ (word * P[0] & M64), 23) * P[1] + P[2]) & M64
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ (byte * P[4] & M64), 11) * P[0] & M64
    h = (h ^ h >> 33) * P[1] & M64
    h = (h ^ h >> 29) * P[2] & M64
    return h ^ h >> 32


def key(seed, name, purpose):
    text = struct.pack("<q", seed)
    for part in (name.encode(), purpose.encode()):
        text += struct.pack("<q", len(part)) + part
    h = xxh64(text)
    return h & 0xFFFFFFFF, h >> 32


def philox(c, k):
    """Philox4x32 with 10 rounds."""
    c, (k0, k1) = list(c), k
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k0, b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c


def block(k, step, sample, number):
    counter = number | sample << 48 | step << 96
    return philox([counter >> 32 * i & 0xFFFFFFFF for i in range(4)], k)


def below(k, step, sample, element, bound):
    word = block(k, step, sample, element)
    while True:
        for low, high in (word[:2], word[2:]):
            product = (low | high << 32) * bound
            if product & M64 >= 2**64 % bound:
                return product >> 64
        word = philox(word, k)


def permute(k, epoch, count, v):
    """Place v of the permutation of [0, count): Feistel rounds until the value is inside."""
    bits = (count - 1).bit_length()
    low = bits // 2
    mask = (1 << low) - 1, (1 << bits - low) - 1
    while True:
        half = [v & mask[0], v >> low]
        for r in range(12):
            word = philox([half[r % 2], r, epoch & 0xFFFFFFFF, epoch >> 32], k)
            half[1 - r % 2] ^= word[0] & mask[1 - r % 2]
        v = half[1] << low | half[0]
        if v < count:
            return v


# ---- data ----

def moved(image, dy, dx, flip):
    """The image seen from (dy, dx), zeros around it, its columns mirrored on request."""
    rows, columns, _ = image.shape
    y = np.arange(rows) + dy
    x = (np.arange(columns)[::-1] if flip else np.arange(columns)) + dx
    out = np.zeros_like(image)
    inside = np.ix_((y >= 0) & (y < rows), (x >= 0) & (x < columns))
    out[inside] = image[np.ix_(y[(y >= 0) & (y < rows)], x[(x >= 0) & (x < columns)])]
    return out


class Data:
    def __init__(self, images, labels, seed, batch, augment):
        self.images, self.labels, self.batch, self.augment = images, labels, batch, augment
        self.keys = [key(seed, "data", what) for what in ("shuffle", "crop", "flip")]
        self.count = len(labels)
        self.batches = -(-self.count // batch)
        self.scale, self.shift = np.array([1 / 255]), np.array([0.0])
        if augment:
            values = images.reshape(-1, images.shape[-1]) / 255
            self.scale = 1 / 255 / values.std(0)
            self.shift = -values.mean(0) / values.std(0)

    def get(self, step):
        epoch, number = divmod(step, self.batches)
        places = range(number * self.batch, min((number + 1) * self.batch, self.count))
        chosen = [permute(self.keys[0], epoch, self.count, p) for p in places]
        x = [self.images[i] for i in chosen]
        if self.augment:
            x = [self.move(image, epoch, i) for image, i in zip(x, chosen)]
        return np.stack(x) * self.scale + self.shift, self.labels[chosen]

    def move(self, image, epoch, sample):
        dy, dx = (below(self.keys[1], epoch, sample, axis, 9) - 4 for axis in range(2))
        return moved(image, dy, dx, block(self.keys[2], epoch, sample, 0)[0] >> 31)


# ---- networks: x is [samples, channels, rows, columns] until it is flattened ----

def linear(w, name, x):
    return x @ w[name + ".weight"] + w[name + ".bias"]


def conv(w, name, x, **how):
    return F.conv2d(x, w[name + ".weight"].permute(3, 2, 0, 1), w.get(name + ".bias"), **how)


def flat(x):
    return x.permute(0, 2, 3, 1).reshape(len(x), -1)


def mlp(w, x, _):
    x = F.relu(linear(w, "linear1", flat(x)))
    return linear(w, "linear3", F.relu(linear(w, "linear2", x)))


def lenet(w, x, _):
    x = F.max_pool2d(conv(w, "conv1", x), 2)
    x = F.max_pool2d(conv(w, "conv2", x), 2)
    return linear(w, "linear2", F.relu(linear(w, "linear1", flat(x))))


def norm(w, name, x, piece):
    """Batch norm with the mean and the variance of each piece of the batch."""
    out = []
    for part in x.split(piece):
        mean = part.mean((0, 2, 3), keepdim=True)
        variance = ((part - mean) ** 2).mean((0, 2, 3), keepdim=True)
        out.append((part - mean) / (variance + 1e-5).sqrt())
    gamma, beta = (w[f"{name}.{what}"].reshape(1, -1, 1, 1) for what in ("gamma", "beta"))
    return torch.cat(out) * gamma + beta


def resnet(w, x, piece):
    def both(prefix, n, x, **how):
        return norm(w, f"{prefix}batch_norm{n}", conv(w, f"{prefix}conv{n}", x, **how), piece)

    x = F.relu(both("", 1, x, padding=1))
    for i in range(1, 10):
        here = f"residual{i}."
        stride = 2 if i in (4, 7) else 1
        y = both(here, 2, F.relu(both(here, 1, x, padding=1, stride=stride)), padding=1)
        x = F.relu(y + (both(here + "shortcut.", 1, x, stride=2) if stride == 2 else x))
    return linear(w, "linear1", x.mean((2, 3)))


# ---- neon's sparse autoencoder: weights [rows, columns, window rows, window columns, channels, filters] ----

def filtering(w, x):
    """Each position has filters of its own."""
    rows, columns, size, _, channels, filters = w.shape
    windows = F.unfold(x, size).reshape(len(x), channels, size, size, rows, columns)
    return torch.einsum("ncabrq,rqabcf->nfrq", windows, w)


def defiltering(w, y):
    """The transpose of filtering: positions add up what they have of the filters."""
    rows, columns, size, _, channels, _ = w.shape
    windows = torch.einsum("nfrq,rqabcf->ncabrq", y, w)
    return F.fold(windows.reshape(len(y), -1, rows * columns), (rows + size - 1, columns + size - 1), size)


def root(s):
    """The root of what is not negative, with the derivative 0 at 0."""
    return torch.where(s > 0, s, torch.ones_like(s)).sqrt() * (s > 0)


def norm_pool(x):
    return root(9 * F.avg_pool2d(x * x, 3, 1))


def contrast(x):
    """x without the mean of its surroundings, divided by their deviation, over all channels."""
    away = torch.arange(-1, 2, dtype=x.dtype)
    g = torch.exp(-(away[:, None] ** 2 + away ** 2) / (2 * 2 / 9))
    g = (g / (g.sum() * x.shape[1])).expand(1, x.shape[1], 3, 3)
    v = x - F.conv2d(x, g, padding=1)
    s = root(F.conv2d(v * v, g, padding=1))
    return v / torch.where(s > 0, s, torch.ones_like(s))


def gb(w, x, level):
    """The loss of a level's autoencoder and pools, or without a level the output."""
    for i in range(3):
        weight = w[f"features{i}.filters.weight"]
        y = filtering(weight, x)
        pools = norm_pool(y)
        if i == level:
            again = defiltering(weight, y)
            return (((again - x) ** 2).sum() / 2 + 0.1 * pools.sum()) / len(x)
        x = contrast(pools)
    return flat(x) @ w["output.weight"]


def gb_phase(level):
    return dict(steps=20, rate=lambda epochs: 0.01, moves=f"features{level}.",
                loss=lambda w, x, label: gb(w, x, level))


def gb_output(moves):
    return dict(steps=20, rate=lambda epochs: 1.0, moves=moves,
                loss=lambda w, x, label: logistic_loss(gb(w, x, None), label))


def unit_norm(name, v):
    """The filters of a position have the norm 1 behind an update."""
    return v / (v ** 2).sum((2, 3, 4), keepdim=True).sqrt() if ".filters." in name else v


def softmax_loss(y, label):
    return F.cross_entropy(y, label)


def logistic_loss(y, label):
    return F.binary_cross_entropy_with_logits(y, F.one_hot(label, 10).to(y.dtype))


# ---- presets: those of experiments/, on generated sets ----
#
# A phase has its number of steps, a loss of (weights, x, labels), a rate by epochs since it began, and the
# beginning of the names of what moves.  A preset without phases is one phase.

PRESETS = {
    "mnist-mlp": dict(
        net=mlp, loss=softmax_loss, seed=1, count=950, shape=(28, 28, 1), batch=100, shards=8,
        rate=lambda epochs: 0.05 * (1 - epochs / 8), momentum=0.9),
    "mnist-lenet": dict(
        net=lenet, loss=logistic_loss, seed=0, count=2550, shape=(28, 28, 1), batch=100, shards=8,
        rate=lambda epochs: 0.1, more=", one_hot: true"),
    "cifar10-resnet": dict(
        net=resnet, loss=softmax_loss, seed=1, count=12500, shape=(16, 16, 3), batch=32, shards=2,
        rate=lambda epochs: 0.1 * min(epochs, 1), momentum=0.9, decay=1e-4, augment=True,
        more=", normalise: standard, crop: 4, flip: true"),
    "mnist-gb": dict(
        phases=[gb_phase(0), gb_phase(1), gb_phase(2), gb_output("output."), gb_output("")],
        behind=unit_norm, seed=0, count=75, shape=(28, 28, 1), batch=20, shards=8, more=", one_hot: true"),
}


def phases_of(p):
    def loss(w, x, label):
        return p["loss"](p["net"](w, x, -(-p["batch"] // p["shards"])), label)

    return p.get("phases") or [dict(steps=STEPS, loss=loss, rate=p["rate"], moves="")]


def train(p, data, initial, dtype):
    """The losses of the steps of each phase."""
    w = {name: torch.tensor(value, dtype=dtype) for name, value in initial.items()
         if not name.endswith((".mean", ".variance"))}
    losses, step = [], 0
    for phase in phases_of(p):
        moving = [name for name in w if name.startswith(phase["moves"])]
        last = {name: torch.zeros_like(w[name]) for name in moving}
        losses.append([])
        for number in range(phase["steps"]):
            x, label = data.get(step)
            x = torch.tensor(x, dtype=dtype).permute(0, 3, 1, 2)
            leaves = [w[name].requires_grad_() for name in moving]
            loss = phase["loss"](w, x, torch.tensor(label))
            losses[-1].append(loss.item())
            rate = phase["rate"](number / data.batches)
            for name, g in zip(moving, torch.autograd.grad(loss, leaves)):
                h = g + p.get("decay", 0) * w[name].detach()
                last[name] = p.get("momentum", 0) * last[name] + h
                w[name] = p.get("behind", lambda _, v: v)(name, w[name].detach() - rate * last[name])
            step += 1
        w = {name: v.detach() for name, v in w.items()}
    return losses


def main():
    lockstep = sys.argv[1]
    print("# Made by tests/data/curves.py, which says how; do not edit.  "
          "Committed: a reference from outside, and the build has neither Python nor PyTorch.")
    for name, p in PRESETS.items():
        shape = ",".join(map(str, p["shape"]))
        override = (f"data={{type: glyphs, count: {p['count']}, test_count: 0, shape: [{shape}], "
                    f"batch: {p['batch']}, shards: {p['shards']}{p.get('more', '')}}}")
        with tempfile.TemporaryDirectory() as work:
            for command in (
                    ["train", "--quiet", f"experiments/{name}.yaml", override, "dtype=f64",
                     *(f"phases.{i}.epochs=0" for i in range(len(p.get("phases", [])))),
                     *([] if "phases" in p else ["train.epochs=0"]), f"train.output={work}"],
                    ["ckpt", "export", f"{work}/weights.safetensors", f"{work}/weights.npz"],
                    ["data", "convert", "--type", "glyphs", "--options",
                     f"count={p['count']} shape={shape}", f"{work}/data.npz"]):
                subprocess.run([lockstep, *command], check=True, stdout=subprocess.DEVNULL)
            initial = dict(np.load(os.path.join(work, "weights.npz")))
            images, labels = (np.load(os.path.join(work, "data.npz"))[f] for f in "xy")
        data = Data(images, labels, p["seed"], p["batch"], p.get("augment", False))
        exact, rounded = (train(p, data, initial, t) for t in (torch.float64, torch.float32))
        print("curve", name, override)
        for losses, others in zip(exact, rounded):
            away = np.maximum.accumulate(np.abs(np.subtract(losses, others)))
            for loss, distance in zip(losses, away):
                print(repr(loss), f"{distance:.3g}")


main()
