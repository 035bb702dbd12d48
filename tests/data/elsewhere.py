"""Read with NumPy what Lockstep wrote, and write with NumPy what Lockstep shall read.

    elsewhere.py write FOLDER      arrays in several forms
    elsewhere.py read FOLDER       set.npz and set.tfrecord: check them, split the records into files
"""
import struct
import sys

import numpy

folder = sys.argv[2]


def expected():
    x = (numpy.arange(5 * 6) * 7 % 256).astype(numpy.uint8).reshape(5, 2, 3)
    return x, numpy.arange(5) % 3


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


if sys.argv[1] == "write":
    x, y = expected()
    numpy.savez(folder + "/plain.npz", x=x, y=y)
    numpy.savez_compressed(folder + "/packed.npz", x=x, y=y)
    for kind in "u1 b1 i4 i8 f2 f4 f8 >f4 >i8".split():
        numpy.save(folder + "/" + kind.strip(">") + ("b" if ">" in kind else "") + ".npy", y.astype(kind))
else:
    x, y = expected()
    for name in ("set.npz", "x.npy", "y.npy"):
        array = numpy.load(folder + "/" + name)
        if name == "set.npz":
            assert sorted(array.files) == ["x", "y"], array.files
            assert array.zip.testzip() is None
            arrays = [("x", array["x"]), ("y", array["y"])]
        else:
            arrays = [(name[0], array)]
        for field, values in arrays:
            want = x if field == "x" else y
            assert values.dtype == want.dtype, (name, values.dtype)
            assert values.shape == want.shape and (values == want).all(), name
    data = open(folder + "/set.tfrecord", "rb").read()
    at = n = 0
    while at < len(data):
        length, check = struct.unpack("<QI", data[at : at + 12])
        assert check == masked(data[at : at + 8])
        record = data[at + 12 : at + 12 + length]
        assert struct.unpack("<I", data[at + 12 + length : at + 16 + length])[0] == masked(record)
        open("%s/record%d" % (folder, n), "wb").write(record)
        at += 16 + length
        n += 1
    assert n == 5
