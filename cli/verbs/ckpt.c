/* lockstep ckpt KIND: look at weights in files, compare them, and turn them into other formats. */
#include "verb.h"

const lk__verb lk__verb_ckpt = {
    .name = "ckpt",
    .summary = "inspect, hash, compare and convert weights in files",
    .operands = "KIND",
    .about =
        "Works on tensors in files, as \"lockstep train\" writes them. The suffix of a file says "
        "its format: .safetensors, or NumPy's .npz (several arrays) or .npy (one, named after the "
        "file). In place of a file there may be a checkpoint: its folder, or one that holds "
        "several, of "
        "which the newest that verifies is taken.",
    .kinds = lk__ckpt_kinds,
};
