"""Records by another implementation: protobuf's own classes, and framing and CRC-32C as TensorFlow's
documents describe them.

    records.py write FOLDER PROTO     sets in several forms, for Lockstep to read
    records.py read FOLDER PROTO      what Lockstep wrote: check every record

PROTO is the folder of example_pb2.py, which protoc makes of example.proto.
"""
import glob
import gzip
import struct
import sys
import zlib

import numpy

sys.path.insert(0, sys.argv[3])
import example_pb2  # noqa: E402

folder = sys.argv[2]
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


assert ((masked(b"123456789") - 0xA282EAD8) & 0xFFFFFFFF) == (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
assert masked(struct.pack("<Q", 3)) == 0x0E4999B0  # known from the format's description


def expected():
    """40 images [4][3][2] of bytes, labels below 7, f32 weights, and masks as raw i32."""
    x = (numpy.arange(40 * 24) * 7 % 256).astype(numpy.uint8).reshape(40, 4, 3, 2)
    return x, numpy.arange(40) * 3 % 7, numpy.arange(40) / 8, numpy.arange(80, dtype="<i4").reshape(40, 2)


def example(i):
    x, y, w, m = expected()
    e = example_pb2.Example()
    f = e.features.feature
    f["image_raw"].bytes_list.value.append(x[i].tobytes())
    f["label"].int64_list.value.append(int(y[i]))
    for name, size in zip(("height", "width", "depth"), x.shape[1:]):
        f[name].int64_list.value.append(size)
    f["weight"].float_list.value.append(w[i])
    f["pixels"].float_list.value.extend(x[i].ravel() / 4)
    f["hot"].int64_list.value.extend(int(k == y[i]) for k in range(7))
    f["mask"].bytes_list.value.append(m[i].tobytes())
    f["name"].bytes_list.value.extend([b"never", b"read"])
    f["nothing"].SetInParent()
    return e.SerializeToString()


def framed(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data))


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack("<QI", data[at : at + 12])
        assert check == masked(data[at : at + 8]), at
        record = data[at + 12 : at + 12 + length]
        assert struct.unpack("<I", data[at + 12 + length : at + 16 + length])[0] == masked(record), at
        yield example_pb2.Example.FromString(record).features.feature
        at += 16 + length


if sys.argv[1] == "write":
    x, y, w, m = expected()
    numpy.savez(folder + "/want.npz", x=x, y=y)
    numpy.savez(folder + "/floats.npz", x=(x / 4).astype(numpy.float32), y=y)
    for k in range(3):
        part = b"".join(framed(example(i)) for i in range(40 * k // 3, 40 * (k + 1) // 3))
        name = "-%05d-of-00003" % k
        open(folder + "/plain" + name, "wb").write(part)
        open(folder + "/gzip" + name, "wb").write(gzip.compress(part))
        open(folder + "/zlib" + name, "wb").write(zlib.compress(part))
else:
    x, y, w, m = expected()
    for form in ("plain", "gzip"):
        files = sorted(glob.glob(folder + "/ours-" + form + "-*.tfrecord" + (".gz" if form == "gzip" else "")))
        assert len(files) == 3, files
        data = [open(f, "rb").read() for f in files]
        found = [f for part in data for f in records(gzip.decompress(part) if form == "gzip" else part)]
        assert len(found) == 40
        for i, f in enumerate(found):
            assert f["image_raw"].bytes_list.value == [x[i].tobytes()]
            assert f["label"].int64_list.value == [y[i]]
            assert [f[k].int64_list.value[0] for k in ("height", "width", "depth")] == [4, 3, 2]
            assert f["lockstep"].bytes_list.value == [b"x u8[4,3,2], y i64[], 7 classes"]
    for i, f in enumerate(records(open(folder + "/ours-floats.tfrecord", "rb").read())):
        assert numpy.array_equal(f["image_raw"].float_list.value, x[i].ravel() / 4)
