/* lockstep data KIND: look at datasets, and turn them into other formats. */
#include "verb.h"

const lk__verb lk__verb_data = {
    .name = "data",
    .summary = "inspect and convert datasets",
    .operands = "KIND",
    .about = "Looks at datasets or writes them in another format. \"lockstep list formats\" lists "
             "the formats and generated sets.",
    .kinds = lk__data_kinds,
};
