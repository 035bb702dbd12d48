"""The sets of `lockstep bench data` by PyTorch's DataLoader.

    peer_torch_data.py FOLDER SAMPLES

Answers each line "CASE READERS BATCHES" on stdin with one line on stdout: the seconds in which READERS
workers deliver BATCHES batches of 128 images as f32 in [0, 1], and how many samples that were.  Only plain
files are read, by their places in memory that is mapped; checksums are not checked.  The first line it prints
is its version.
"""
import glob
import os
import struct
import sys
import time

import numpy
import torch

BATCH = 128


class Records(torch.utils.data.Dataset):
    """Records of equal size; where image and label lie is found in the first."""

    def __init__(self, folder):
        self.maps = [numpy.memmap(f, dtype=numpy.uint8) for f in sorted(glob.glob(folder + "/plain-*.tfrecord"))]
        first = bytes(self.maps[0][:8192])
        self.size = struct.unpack("<Q", first[:8])[0] + 16
        self.image = first.index(b"image_raw") + len(b"image_raw") + 2 + 3 * 3
        self.label = first.index(b"label") + len(b"label") + 6
        self.each = len(self.maps[0]) // self.size

    def __len__(self):
        return self.each * len(self.maps)

    def __getitem__(self, i):
        m, at = self.maps[i // self.each], i % self.each * self.size
        image = torch.from_numpy(m[at + self.image : at + self.image + 3072].astype(numpy.float32))
        return image.reshape(32, 32, 3) / 255, int(m[at + self.label])


def batches(folder, case, readers):
    loader = torch.utils.data.DataLoader(
        Records(folder), batch_size=BATCH, shuffle="shuffled" in case, num_workers=readers, drop_last=True,
        persistent_workers=True)
    while True:
        yield from loader


def main():
    torch.set_num_threads(1)
    print("PyTorch", torch.__version__, flush=True)
    running = {}
    for line in sys.stdin:
        *case, readers, n = line.split()
        key = (" ".join(case), int(readers))
        if key not in running:
            running[key] = batches(sys.argv[1], *key)
            next(running[key])
        start = time.perf_counter()
        samples = sum(len(next(running[key])[1]) for _ in range(int(n)))
        print(repr(time.perf_counter() - start), samples, flush=True)
    os._exit(0)  # the workers are daemons


main()
