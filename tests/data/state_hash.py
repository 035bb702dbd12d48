"""Sums and hashes of tensors by hash format 2, for tests/unit/base/test_state_hash.c.

    python3 tests/data/state_hash.py > tests/data/state_hash.h

Written from docs/reference/numerics.md, without any code of Lockstep; xxHash from its specification.  With
--markdown it prints the table of that page.
"""
import struct
import sys

M64 = 2**64 - 1
P = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
     2870177450012600261)

# dtype, bytes of an element, a value for the table, its bits
DTYPES = (("f32", 4, "1.5", struct.unpack("<I", struct.pack("<f", 1.5))[0]),
          ("f64", 8, "1.5", struct.unpack("<Q", struct.pack("<d", 1.5))[0]),
          ("i32", 4, "-2", struct.unpack("<I", struct.pack("<i", -2))[0]),
          ("i64", 8, "-2", struct.unpack("<Q", struct.pack("<q", -2))[0]),
          ("u8", 1, "200", 200),
          ("f16", 2, "1.5", struct.unpack("<H", struct.pack("<e", 1.5))[0]),
          ("bf16", 2, "1.5", struct.unpack("<I", struct.pack("<f", 1.5))[0] >> 16))
ROWS, COLUMNS = 5, 7
BOX = (1, 3, 2, 4)  # first row and how many, first column and how many


def rotate(v, n):
    return (v << n | v >> 64 - n) & M64


def xxh64(data):
    """XXH64 with seed 0."""
    def lane(acc, v):
        return rotate((acc + v * P[1]) & M64, 31) * P[0] & M64

    at, n = 0, len(data)
    if n >= 32:
        acc = [(P[0] + P[1]) & M64, P[1], 0, -P[0] & M64]
        while at + 32 <= n:
            acc = [lane(a, v) for a, v in zip(acc, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotate(a, r) for a, r in zip(acc, (1, 7, 12, 18))) & M64
        for a in acc:
            h = ((h ^ lane(0, a)) * P[0] + P[3]) & M64
    else:
        h = P[4]
    h = (h + n) & M64
    while at + 8 <= n:
        h = (rotate(h ^ lane(0, struct.unpack_from("<Q", data, at)[0]), 27) * P[0] + P[3]) & M64
        at += 8
    if at + 4 <= n:
        h = (rotate(h ^ struct.unpack_from("<I", data, at)[0] * P[0] & M64, 23) * P[1] + P[2]) & M64
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ byte * P[4] & M64, 11) * P[0] & M64
    h = (h ^ h >> 33) * P[1] & M64
    h = (h ^ h >> 29) * P[2] & M64
    return h ^ h >> 32


def mix(place, bits):
    z = ((place + 1) * 0x9e3779b97f4a7c15 + bits) & M64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & M64
    z = (z ^ z >> 27) * 0x94d049bb133111eb & M64
    return z ^ z >> 31


def text(t):
    return struct.pack("<q", len(t)) + t.encode()


def tensor_hash(name, dtype, shape, total):
    return xxh64(text(name) + text(dtype) + struct.pack("<q", len(shape)) +
                 b"".join(struct.pack("<q", n) for n in shape) + struct.pack("<Q", total))


def elements(size):
    """Any bits, all zeros and all ones among them."""
    out, v = [], 1
    for _ in range(ROWS * COLUMNS - 2):
        v = v * 6364136223846793005 + 1442695040888963407 & M64
        out.append(v >> 64 - 8 * size)
    return out + [0, (1 << 8 * size) - 1]


def in_box(i):
    r, c = divmod(i, COLUMNS)
    return BOX[0] <= r < BOX[0] + BOX[1] and BOX[2] <= c < BOX[2] + BOX[3]


def markdown():
    print("| dtype | value | bits | mix(3, bits) | hash of a tensor \"w\" [1] of it |")
    print("|---|---|---|---|---|")
    for dtype, size, value, bits in DTYPES:
        print(f"| {dtype} | {value} | `{bits:0{2 * size}x}` | `{mix(3, bits):016x}` | "
              f"`{tensor_hash('w', dtype, [1], mix(0, bits)):016x}` |")


def header():
    print("""/* Sums and hashes by hash format 2, written by state_hash.py: do not edit.
 *
 * The build does not make it: building and running the tests needs no Python.  To make it anew, in the
 * folder of the project:
 *
 *     python3 tests/data/state_hash.py >tests/data/state_hash.h */""")
    print("/* clang-format off */")
    print(f"enum {{ ROWS = {ROWS}, COLUMNS = {COLUMNS} }};")
    print("static const lk_box box_of_sums = {2, {%d, %d}, {%d, %d}};" % (BOX[0], BOX[2], BOX[1], BOX[3]))
    print("static const struct known_sum {")
    print("    lk_dtype dtype;")
    print("    uint64_t value, mix, hash;         /* bits of a value, at place 3, as \"w\" [1] */")
    print("    uint64_t whole, box, whole_hash;   /* sums of `bits`, and its hash as \"layer.weight\" */")
    print("    uint64_t bits[ROWS * COLUMNS];")
    print("} known_sums[] = {")
    for dtype, size, _, bits in DTYPES:
        e = elements(size)
        whole = sum(mix(i, v) for i, v in enumerate(e)) & M64
        box = sum(mix(i, v) for i, v in enumerate(e) if in_box(i)) & M64
        numbers = [bits, mix(3, bits), tensor_hash("w", dtype, [1], mix(0, bits)), whole, box,
                   tensor_hash("layer.weight", dtype, [ROWS, COLUMNS], whole)]
        print(f"    {{LK_{dtype.upper()}, " + ", ".join(f"0x{n:x}" for n in numbers) + ", {")
        for r in range(ROWS):
            print("        " + " ".join(f"0x{v:x}," for v in e[r * COLUMNS:(r + 1) * COLUMNS]))
        print("    }},")
    print("};")
    print("/* clang-format on */")


markdown() if "--markdown" in sys.argv else header()
