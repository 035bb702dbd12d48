"""Training steps of the networks of `lockstep bench step` in PyTorch.

Answers each line "NETWORK BATCH OPTIMIZER STEPS" on stdin with one line on stdout: the processor time in
seconds of STEPS steps, forward, backward and update, and the number of parameters.  A step takes one of
four batches that are there before the clock starts; images are channels last, which is the faster
layout.  The first line it prints is its version.
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(0)

IMAGES = {"mlp100": (784,), "mlp1000": (784,), "lenet": (1, 28, 28), "cifar": (3, 32, 32)}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-4),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-4),
}


def mlp(width):
    return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(),
                         nn.Linear(500, 10))


def cifar():
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Dropout(0.25), nn.Conv2d(32, 64, 3, padding=1),
                         nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Dropout(0.25), nn.Flatten(), nn.Linear(2304, 512), nn.ReLU(),
                         nn.Dropout(0.5), nn.Linear(512, 10))


NETWORKS = {"mlp100": lambda: mlp(100), "mlp1000": lambda: mlp(1000), "lenet": lenet,
            "cifar": cifar}


class Case:
    def __init__(self, network, batch, optimizer):
        self.model = NETWORKS[network]()
        shape = IMAGES[network]
        x = [torch.rand(batch, *shape) for _ in range(4)]
        if len(shape) == 3:
            self.model = self.model.to(memory_format=torch.channels_last)
            x = [v.contiguous(memory_format=torch.channels_last) for v in x]
        self.batches = [(v, torch.randint(0, 10, (batch,))) for v in x]
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.run(5)

    def run(self, steps):
        for i in range(steps):
            x, y = self.batches[i % 4]
            self.optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()


def main():
    print("PyTorch", torch.__version__, flush=True)
    name, case = None, None
    for line in sys.stdin:
        *request, steps = line.split()
        if request != name:
            name, case = request, Case(request[0], int(request[1]), request[2])
        start = time.process_time()
        case.run(int(steps))
        seconds = time.process_time() - start
        print(repr(seconds), sum(p.numel() for p in case.model.parameters()), flush=True)


main()
