/* cosine: from 1 to `to` along half a cosine over the epochs [start, end]. */
#include "optim/schedules.h"

#include <lockstep/extra/map.h>

typedef struct cosine_options {
    double to, start, end;
} cosine_options;

static const lk_option options[] = {
    {"to", LK_OPTION_REAL, offsetof(cosine_options, to), .def = "0", .max = 1e9,
     .help = "factor from the end on"},
    {"start", LK_OPTION_REAL, offsetof(cosine_options, start), .def = "0", .max = 1e9,
     .help = "epoch at which it begins to fall"},
    {"end", LK_OPTION_REAL, offsetof(cosine_options, end), .def = "0", .max = 1e9,
     .help = "epoch at which it has fallen; 0: the last"},
    {0}};

static double cosine_factor(const void *opt, const lk_schedule_point *at)
{
    const cosine_options *o = opt;
    double x = 3.141592653589793 * lk__share_passed(at, o->start, lk__end_or_all(o->end, at));
    if (lk_map1(LK_F64, LK_MAP1_COS, 0, 1, &x, &x) != LK_OK)
        lk_error_clear(); /* the thread's rounding: the update itself refuses it */
    return o->to + 0.5 * (1 - o->to) * (1 + x);
}

static bool cosine_uses_end(const void *opt)
{
    return ((const cosine_options *)opt)->end == 0;
}

const lk_schedule lk__schedule_cosine = {
    .descriptor = {.name = "cosine",
                   .summary = "from 1 to `to` along half a cosine",
                   .options = options,
                   .options_size = sizeof(cosine_options)},
    .factor = cosine_factor,
    .uses_end = cosine_uses_end};
