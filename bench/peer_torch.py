"""The chains of `lockstep bench tape` in PyTorch's eager mode.

Answers each line "CASE OPS ELEMENTS REPEATS" on stdin with one line on stdout: the processor time in
seconds of REPEATS times forward and backward through a chain of OPS ops on ELEMENTS f32 elements,
and the first element of the gradient.  The first line it prints is its version
and, after a tab, its code path.
"""
import sys
import time

import torch

sys.dont_write_bytecode = True
import lockstep_peer_torch_path  # noqa: E402

torch.set_num_threads(1)


def run(case, ops, x, w):
    y = x
    for i in range(ops):
        kind = i % 3 if case == "mixed" else {"mul": 0, "add": 1, "tanh": 2}[case]
        if kind == 0:
            y = y * w
        elif kind == 1:
            y = y + w
        else:
            y = torch.tanh(y)
    y.sum().backward()


def main():
    print("PyTorch ", torch.__version__, "\t", lockstep_peer_torch_path.path(), sep="", flush=True)
    for line in sys.stdin:
        case, ops, elements, repeats = line.split()
        x = torch.full((int(elements),), 0.5, requires_grad=True)
        w = torch.full((int(elements),), 0.99, requires_grad=True)
        start = time.process_time()
        for _ in range(int(repeats)):
            x.grad = w.grad = None
            run(case, int(ops), x, w)
        seconds = time.process_time() - start
        print(repr(seconds), repr(x.grad[0].item()), flush=True)


main()
