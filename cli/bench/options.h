/* Options that several benches have, as rows of their tables; `field` is the place in the bench's struct. */
#ifndef LK_CLI_BENCH_OPTIONS_H
#define LK_CLI_BENCH_OPTIONS_H

#include <lockstep/option.h>

/* `listed` says where the names are, or "". */
#define BENCH_FILTER_OPTION(field, listed)                                            \
    {                                                                                 \
        .name = "filter", .type = LK_OPTION_TEXT, .offset = (field), .value = "TEXT", \
        .help = "only cases with TEXT in their name" listed                           \
    }
#define BENCH_IN_LIST " (\"lockstep list cases\")"

/* `each` is what the time is for: "each case, everybody together". */
#define BENCH_SECONDS_OPTION(field, seconds, each)                                  \
    {                                                                               \
        .name = "seconds", .type = LK_OPTION_REAL, .offset = (field), .value = "S", \
        .def = seconds, .min = 0, .max = 3600, .help = "time for " each             \
    }

#define BENCH_SCALING_OPTION(field)                                                         \
    {                                                                                       \
        .name = "scaling", .type = LK_OPTION_FLAG, .offset = (field),                       \
        .help = "instead, our time with one thread and with N, and what N copies with one " \
                "thread each reach, which is all the machine has to give"                   \
    }

/* 0 where it is not given. */
#define BENCH_THREADS_OPTION(field)                                                          \
    {                                                                                        \
        .name = "threads", .type = LK_OPTION_INT, .offset = (field), .value = "N", .min = 1, \
        .max = LK_MAX_THREADS,                                                               \
        .help = "threads for everybody; 1 by default, with --scaling 2, and no fewer"        \
    }

#define BENCH_JSON_OPTION(field)                                                                \
    {                                                                                           \
        .name = "json", .type = LK_OPTION_FLAG, .offset = (field), .help = "print JSON objects" \
    }

#endif /* LK_CLI_BENCH_OPTIONS_H */
