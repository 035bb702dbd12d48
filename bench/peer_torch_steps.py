"""Training steps of the networks of `lockstep bench step` in PyTorch.

    peer_torch_steps.py torch N    one process with N threads
    peer_torch_steps.py ddp N      N processes, DistributedDataParallel over gloo, a part of the batch each

Answers each line "NETWORK BATCH OPTIMIZER STEPS" on stdin with one line on stdout: the time in seconds of
STEPS steps, forward, backward and update, and the number of parameters that we would have.  The time is that of the processor
if there is one thread, otherwise that of the clock.  A step takes one of four batches that are there
before the clock starts; images are channels last, which is the faster layout.  The first line it prints is
its version and, after a tab, its code path.
"""
import glob
import os
import socket
import subprocess
import sys
import time

HOW, N = sys.argv[1], int(sys.argv[2])
RANK = int(sys.argv[3]) if len(sys.argv) > 3 else 0
THREADS = N if HOW == "torch" else 1


def settle():
    """Before torch is loaded: threads, cores, and the OpenBLAS whose threads are those of torch."""
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    if N == 1:
        return
    try:
        os.sched_setaffinity(0, range(os.cpu_count()))
        cores = sorted(os.sched_getaffinity(0))
        if HOW == "ddp" and N <= len(cores):
            os.sched_setaffinity(0, {cores[RANK]})
    except OSError:
        pass
    openmp = glob.glob("/usr/lib/*/openblas-openmp")
    if openmp and os.environ.get("LD_LIBRARY_PATH", "") != openmp[0]:
        os.environ["LD_LIBRARY_PATH"] = openmp[0]
        os.execv(sys.executable, [sys.executable] + sys.argv)


settle()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

sys.dont_write_bytecode = True
import lockstep_peer_torch_path  # noqa: E402

torch.set_num_threads(THREADS)
torch.manual_seed(0)

IMAGES = {"mlp100": (784,), "mlp1000": (784,), "lenet": (1, 28, 28), "cifar": (3, 32, 32),
          "resnet20": (3, 32, 32), "lstm": (64, 32), "gru": (64, 32), "unet": (1, 128, 128), "unet3d": (1, 32, 32, 32)}
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


def normed(ins, outs, kernel, stride):
    return nn.Sequential(nn.Conv2d(ins, outs, kernel, stride, kernel // 2, bias=False),
                         nn.BatchNorm2d(outs))


class Residual(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        stride = 1 if ins == outs else 2
        self.layers = nn.Sequential(normed(ins, outs, 3, stride), nn.ReLU(), normed(outs, outs, 3, 1))
        self.shortcut = nn.Identity() if ins == outs else normed(ins, outs, 1, 2)

    def forward(self, x):
        return F.relu(self.layers(x) + self.shortcut(x))


def resnet20():
    widths = [16] * 4 + [32] * 3 + [64] * 3
    return nn.Sequential(normed(3, 16, 3, 1), nn.ReLU(),
                         *(Residual(a, b) for a, b in zip(widths, widths[1:])),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Recurrent(nn.Module):
    """The state after the last time.  `spare`: elements of a second bias, of which only gru's last gate
    has a use."""

    def __init__(self, layer, spare):
        super().__init__()
        self.layer, self.last, self.spare = layer(32, 128, batch_first=True), nn.Linear(128, 10), spare

    def forward(self, x):
        return self.last(self.layer(x)[0][:, -1])


class Unet(nn.Module):
    """A level with `width` channels of `ins`, and `depth` more below it."""

    def __init__(self, axes, depth, ins, width):
        super().__init__()
        conv, norm, pool, up = {
            2: (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.ConvTranspose2d),
            3: (nn.Conv3d, nn.BatchNorm3d, nn.MaxPool3d, nn.ConvTranspose3d)}[axes]

        def two(a):
            return nn.Sequential(conv(a, width, 3, padding=1, bias=False), norm(width), nn.ReLU(),
                                 conv(width, width, 3, padding=1, bias=False), norm(width),
                                 nn.ReLU())
        self.down, self.below = two(ins), None
        if depth > 0:
            self.below = nn.Sequential(pool(2), Unet(axes, depth - 1, width, 2 * width),
                                       up(2 * width, width, 2, stride=2))
            self.up = two(2 * width)

    def forward(self, x):
        x = self.down(x)
        return self.up(torch.cat((x, self.below(x)), 1)) if self.below else x


def unet(axes, width):
    last = {2: nn.Conv2d, 3: nn.Conv3d}[axes]
    return nn.Sequential(Unet(axes, 2, 1, width), last(width, 2, 1))


NETWORKS = {"mlp100": lambda: mlp(100), "mlp1000": lambda: mlp(1000), "lenet": lenet,
            "cifar": cifar, "resnet20": resnet20, "lstm": lambda: Recurrent(nn.LSTM, 4 * 128),
            "gru": lambda: Recurrent(nn.GRU, 2 * 128), "unet": lambda: unet(2, 16), "unet3d": lambda: unet(3, 8)}


def labels(network, batch):
    """Of a sample one of ten; of a U-Net one of two at each position."""
    if network.startswith("unet"):
        return torch.randint(0, 2, (batch, *IMAGES[network][1:]))
    return torch.randint(0, 10, (batch,))


class Case:
    def __init__(self, network, batch, optimizer):
        self.model = NETWORKS[network]()
        self.params = sum(p.numel() for p in self.model.parameters())
        self.params -= getattr(self.model, "spare", 0)
        shape = IMAGES[network]
        if HOW == "ddp":
            batch = (RANK + 1) * batch // N - RANK * batch // N
        x = [torch.rand(batch, *shape) for _ in range(4)]
        last = {3: torch.channels_last, 4: torch.channels_last_3d}.get(len(shape))
        if last:
            self.model = self.model.to(memory_format=last)
            x = [v.contiguous(memory_format=last) for v in x]
        self.batches = [(v, labels(network, batch)) for v in x]
        if HOW == "ddp":
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.run(5)

    def run(self, steps):
        for i in range(steps):
            x, y = self.batches[i % 4]
            self.optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()

    def sample(self, steps):
        clock = time.process_time if N == 1 else time.perf_counter
        if HOW == "ddp":
            dist.barrier()
        start = clock()
        self.run(steps)
        if HOW == "ddp":
            dist.barrier()
        return clock() - start


def processes_join():
    """Rank 0 starts the others; all meet at its port."""
    if RANK == 0:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        for rank in range(1, N):
            subprocess.Popen([sys.executable, sys.argv[0], HOW, str(N), str(rank), port],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    else:
        port = sys.argv[4]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(RANK), WORLD_SIZE=str(N),
                      GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo")


def requests():
    """The lines of rank 0's stdin, on all ranks."""
    while True:
        line = [sys.stdin.readline() if RANK == 0 else None]
        if HOW == "ddp":
            dist.broadcast_object_list(line)
        if not line[0]:
            return
        yield line[0]


def main():
    if HOW == "ddp":
        processes_join()
    if RANK == 0:
        unit = {"torch": ("thread", "threads"), "ddp": ("process", "processes")}[HOW][N > 1]
        print("PyTorch", torch.__version__, "on", N, unit, end="\t")
        print(lockstep_peer_torch_path.path(), flush=True)
    name, case = None, None
    for line in requests():
        *request, steps = line.split()
        if request != name:
            name, case = request, Case(request[0], int(request[1]), request[2])
        seconds = case.sample(int(steps))
        if RANK == 0:
            print(repr(seconds), case.params, flush=True)


main()
