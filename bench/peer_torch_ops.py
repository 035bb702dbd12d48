"""The cases of `lockstep bench ops` in PyTorch's eager mode.

    peer_torch_ops.py torch N    with N threads

Answers each line "PASS INPUTS | EXPRESSION | REPEATS" on stdin with one line on stdout: the time in
seconds of REPEATS times forward, or forward and backward ("both"), and the sum of the absolute values of
the result, or of the first gradient.  The time is that of the processor if there is one thread, otherwise
that of the clock.  cli/bench/ops/ops.h says how inputs are written.  The first line it prints is its version
and, after a tab, its code path.
"""
import os
import re
import sys
import time

THREADS = int(sys.argv[2])
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

sys.dont_write_bytecode = True
import lockstep_peer_torch_path  # noqa: E402

torch.set_num_threads(THREADS)
torch.manual_seed(0)
SEED = 5  # the number of the gradient to begin with, behind those of the inputs


def numbers(k, shape):
    """Of each element a number from 0 to 1, as ours: 32 bits."""
    count = 1
    for size in shape:
        count *= size
    h = ((torch.arange(count) + 7919 * (k + 1)) & 0xFFFFFFFF) * 2654435761 & 0xFFFFFFFF
    h = (h ^ h >> 16) * 2246822519 & 0xFFFFFFFF
    return ((h ^ h >> 13).double() / 4294967296.0).reshape(shape)


def images(t):
    """Channels last in memory, and first in the shape."""
    return t.movedim(-1, 1)


def tensor(k, text):
    shape, marks = re.fullmatch("([0-9x]+)(.*)", text).groups()
    at = numbers(k, [int(n) for n in shape.split("x")])
    below = re.search("i([0-9]+)", marks)
    if below:
        return (at * int(below.group(1))).long()
    if "m" in marks:
        return (at * 2).long().bool()
    lo, hi = (0.5, 1.5) if "+" in marks else (-2, 2)
    x = (lo + (hi - lo) * at).float()
    if "n" in marks:
        x = images(x)
    if "w" in marks:
        x = x.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    if "t" in marks:
        x = x.t().contiguous()
    return x.detach().requires_grad_("c" not in marks)


class Case:
    def __init__(self, inputs, expression):
        self.x = [tensor(k, text) for k, text in enumerate(inputs)]
        self.leaves = [x for x in self.x if x.requires_grad]
        names = "abcde"[:len(self.x)]
        self.call = eval("lambda " + ", ".join(names) + ": " + expression,  # noqa: S307
                         {"torch": torch, "F": F})
        y = self.call(*self.x)
        self.seed, self.totals = None, {"forward": y.detach().abs().sum(dtype=torch.double).item()}
        if y.requires_grad and y.dim() > 0:
            self.seed = self.like(y)
        if y.requires_grad:
            y.backward(self.seed)
            self.totals["both"] = self.leaves[0].grad.abs().sum(dtype=torch.double).item()

    def like(self, y):
        """The gradient to begin with, in the order of our elements."""
        shape = list(y.shape)
        last = y.dim() == 4 and y.is_contiguous(memory_format=torch.channels_last) and \
            not y.is_contiguous()
        if last:
            shape.append(shape.pop(1))
        seed = (-2 + 4 * numbers(SEED, shape)).to(y.dtype)
        return images(seed) if last else seed

    def run(self, both):
        for x in self.leaves:
            x.grad = None
        y = self.call(*self.x)
        if both:
            y.backward(self.seed)

    def sample(self, both, repeats):
        clock = time.process_time if THREADS == 1 else time.perf_counter
        start = clock()
        for _ in range(repeats):
            self.run(both)
        return clock() - start


def main():
    print("PyTorch ", torch.__version__, "\t", lockstep_peer_torch_path.path(), sep="", flush=True)
    name, case = None, None
    for line in sys.stdin:
        what, expression, repeats = line.split("|")
        which, *inputs = what.split()
        if (inputs, expression) != name:
            name, case = (inputs, expression), Case(inputs, expression.strip())
        seconds = case.sample(which == "both", int(repeats))
        print(repr(seconds), repr(case.totals[which]), flush=True)


main()
