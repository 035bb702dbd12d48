"""Read the file that test_safetensors.c has written, by the published format alone.

    python3 tests/unit/io/read_safetensors.py FILE

Ends with status 0 if the file is what it must be.
"""

import json
import struct
import sys

with open(sys.argv[1], "rb") as file:
    content = file.read()

(length,) = struct.unpack_from("<Q", content)
header = json.loads(content[8 : 8 + length].decode("utf-8"))
data = content[8 + length :]

assert header.pop("__metadata__") == {"note": "a\tb"}, header
assert list(header) == ["w", 'k "\u00e9"'], header
assert length % 8 == 0, length
end = 0
for name, (dtype, form, shape, values) in {
    "w": ("F32", "<6f", [2, 3], range(6)),
    'k "\u00e9"': ("I64", "<4q", [4], range(4)),
}.items():
    entry = header[name]
    begin, end_of_this = entry["data_offsets"]
    assert begin == end, entry
    end = end_of_this
    assert entry["dtype"] == dtype and entry["shape"] == shape, entry
    assert struct.unpack(form, data[begin:end]) == tuple(values), name
assert end == len(data), len(data)
