"""The code that PyTorch and the libraries under it chose for this processor."""
import ctypes
import re

import torch


def loaded(pattern):
    """The files of libraries in this process whose names match."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        names = {line.split()[-1] for line in maps}
    return sorted(name for name in names if re.search("/" + pattern + "[^/]*$", name))


def capability():
    try:
        return torch.backends.cpu.get_cpu_capability()
    except AttributeError:  # before PyTorch 2
        found = re.search("CPU capability usage: (.*)", torch.__config__.show())
        return found.group(1) if found else None


def openblas():
    for file in loaded("libopenblas"):
        try:
            name = ctypes.CDLL(file).openblas_get_corename
        except (AttributeError, OSError):
            continue
        name.restype = ctypes.c_char_p
        return name().decode()
    return None


def reference():
    """Debian's BLAS without any library that is made for speed."""
    return "Reference" if loaded("blas/libblas") else None


def onednn():
    for file in loaded("libdnnl"):
        try:
            isa = ctypes.CDLL(file).dnnl_get_effective_cpu_isa()
        except (AttributeError, OSError):
            continue
        for bit, name in ((0x20, "avx512_core"), (4, "avx2"), (2, "avx"), (1, "sse41")):
            if isa & bit:
                return name
    return None


def path():
    """In words, as far as they can be asked."""
    parts = (("capability", capability()), ("OpenBLAS", openblas()), ("BLAS", reference()),
             ("oneDNN", onednn()))
    return ", ".join(name + " " + value for name, value in parts if value)
