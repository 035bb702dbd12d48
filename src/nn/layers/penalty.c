/* penalty: y = x, and a term: weight times the sum of x over the elements of a sample, or of |x|, or x^2.
 *
 * What is large in x costs, so that training keeps it small, or sparse.  The mean over the batch is taken
 * as of every loss; where the term does not count, nothing is done.
 */
#include "nn/layers.h"

#include <lockstep/op.h>

enum { SUM, ABS, SQUARES };

typedef struct penalty_options {
    int of;
    double weight;
} penalty_options;

static const lk_option options[] = {{"of", LK_OPTION_CHOICE, offsetof(penalty_options, of),
                                     .def = "sum", .choices = "sum abs squares",
                                     .help = "sum: of x itself; abs: of |x|; squares: of x^2"},
                                    {"weight", LK_OPTION_REAL, offsetof(penalty_options, weight),
                                     .def = "1", .help = "what the sum is taken by"},
                                    {0}};

static lk_status penalty_build(lk_build *build, const void *opt, lk_tensor_type in,
                               lk_tensor_type *out)
{
    const penalty_options *o = opt;
    LK_CHECK(lk_dtype_is_real(in.dtype), LK_EDTYPE, "the input must be real numbers");
    *out = in;
    return LK_TRACE(lk_build_term(build, &(lk_term){.of = in, .weight = o->weight}));
}

static lk_status penalty_forward(const lk_pass *pass, const lk_layer_instance *layer, lk_var x,
                                 lk_var *out)
{
    const penalty_options *o = layer->options;
    lk_var cost = x;
    *out = x;
    if (!lk_pass_counts(pass, layer))
        return LK_OK;
    if (o->of == ABS)
        LK_TRY(lk_abs(x, &cost));
    else if (o->of == SQUARES)
        LK_TRY(lk_square(x, &cost));
    return LK_TRACE(lk_pass_term(pass, layer, cost, LK_NO_VAR));
}

static const lk_layer_sample samples[] = {{"", LK_DIMS(4), 0},
                                          {"of=abs weight=0.5", LK_DIMS(3, 2), 0},
                                          {"of=squares", LK_DIMS(3), 0},
                                          {.shape = {.ndim = -1}}};

const lk_layer lk__layer_penalty = {
    .descriptor = {.name = "penalty",
                   .summary = "y = x, and a term: weight times the sum of x, |x| or x^2",
                   .options = options,
                   .options_size = sizeof(penalty_options)},
    .reach = LK_REACH_ELEMENT,
    .build = penalty_build,
    .forward = penalty_forward,
    .samples = samples};
