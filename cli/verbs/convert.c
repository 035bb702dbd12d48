/* lockstep convert KIND: make experiments of the files of other systems. */
#include "verb.h"

const lk__verb lk__verb_convert = {
    .name = "convert",
    .summary = "make experiments of other systems' files",
    .operands = "KIND",
    .about = "Reads what describes a training elsewhere and writes an experiment file. What has no "
             "counterpart is named, and nothing is written then.",
    .kinds = lk__convert_kinds,
};
