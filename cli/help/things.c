/* What is built in: tables of the library and of the command, one behind the other. */
#include "help/things.h"

#include "bench/case.h"
#include "bench/ops/ops.h"
#include "bench/peers/peers.h"
#include "selfcheck/check.h"
#include "term.h"

#include <lockstep/coll.h>
#include <lockstep/extra/algorithms.h>
#include <lockstep/extra/dist_check.h>
#include <lockstep/extra/isa.h>
#include <lockstep/extra/map.h>
#include <lockstep/extra/reduce.h>
#include <lockstep/op.h>

#include <string.h>

/* What is looked for, and what is called with each. */
struct search {
    const char *only; /* NULL: all */
    thing_fn *fn;
    void *arg;
};

static bool wanted(const struct search *s, const char *name)
{
    return !s->only || thing_is(name, s->only);
}

static void give(const struct search *s, const char *kind, const char *name, const char *about)
{
    if (wanted(s, name))
        s->fn(s->arg, &(thing){.kind = kind, .name = name, .about = about});
}

static void list_verbs(const struct search *s)
{
    for (int i = 0; lk__verbs[i]; i++)
        if (wanted(s, lk__verbs[i]->name))
            s->fn(s->arg, &(thing){.kind = "verb",
                                   .name = lk__verbs[i]->name,
                                   .about = lk__verbs[i]->summary,
                                   .verb = lk__verbs[i]});
}

static void list_isas(const struct search *s)
{
    for (int i = 0; i < LK_N_ISAS; i++)
        give(s, "isa", lk_isa_name((lk_isa)i), lk_isa_needs((lk_isa)i));
}

static void list_dtypes(const struct search *s)
{
    for (int i = 0; i < LK_N_DTYPES; i++) {
        char about[64];
        snprintf(about, sizeof about, "%zu byte%s%s", lk_dtype_size((lk_dtype)i),
                 plural((int64_t)lk_dtype_size((lk_dtype)i)),
                 lk_dtype_is_real((lk_dtype)i) ? ", arithmetic" : "");
        give(s, "dtype", lk_dtype_name((lk_dtype)i), about);
    }
}

/* The kernels that are not rows of a table of their own. */
static const struct {
    const char *name, *about;
} kernels[] = {
    {"gemm", "C = act(op(A) op(B) + bias), one fma chain per element, or pieces and the tree"},
    {"gemm_batched", "many such products in one call"},
    {"conv_forward", "convolution in 1 to 3 dimensions with stride, padding, dilation, groups"},
    {"conv_backward_data", "its gradient for the input, in gather form; transposed convolution"},
    {"conv_backward_weights", "its gradient for the weights, by pieces of samples and the tree"},
    {"pool_max", "the largest of each window, with its position; and its backward pass"},
    {"pool_avg", "the mean of each window; and its backward pass"},
    {"pool_l2", "the Euclidean norm of each window; and its backward pass"},
    {"softmax", "e^(x - max) / sum, by rows"},
    {"log_softmax", "(x - max) - log(sum of e^(x - max)), by rows"},
    {"tree", "the fixed pairwise tree over vectors, as a stream"},
};

static void list_kernels(const struct search *s)
{
    char name[64];
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        give(s, "kernel", kernels[i].name, kernels[i].about);
    for (int i = 0; i < LK_N_MAP1; i++) {
        snprintf(name, sizeof name, "map1 %s", lk_map1_name((lk_map1_op)i));
        give(s, "kernel", name, lk_map1_formula((lk_map1_op)i));
    }
    for (int i = 0; i < LK_N_MAP2; i++) {
        snprintf(name, sizeof name, "map2 %s", lk_map2_name((lk_map2_op)i));
        give(s, "kernel", name, lk_map2_formula((lk_map2_op)i));
    }
    for (int i = 0; i < LK_N_REDUCE_AXIS_OPS; i++) {
        snprintf(name, sizeof name, "reduce %s", lk_reduce_axis_op_name((lk_reduce_axis_op)i));
        give(s, "kernel", name, lk_reduce_axis_op_formula((lk_reduce_axis_op)i));
    }
}

static void list_ops(const struct search *s)
{
    for (int i = 0; lk_ops[i]; i++)
        give(s, "op", lk_ops[i]->name, lk_ops[i]->summary);
}

static void list_nodes(const struct search *s)
{
    for (int i = 0; lk_dist_checks[i]; i++)
        give(s, "node", lk_dist_checks[i]->name, lk_dist_checks[i]->summary);
}

static void list_checks(const struct search *s)
{
    for (int i = 0; lk__checks[i]; i++)
        give(s, "check", lk__checks[i]->name, lk__checks[i]->summary);
}

static void list_benches(const struct search *s)
{
    for (int i = 0; lk__bench_kinds[i]; i++)
        give(s, "bench", lk__bench_kinds[i]->name, lk__bench_kinds[i]->summary);
}

static void list_cases(const struct search *s)
{
    for (int i = 0; i < bench_n_cases(); i++) {
        bench_case c;
        bench_case_get(i, &c);
        char about[64];
        snprintf(about, sizeof about, "%.4g MFLOP", 1e-6 * c.flop);
        give(s, "case", c.name, about);
    }
    for (const bench_op *c = bench_op_cases; c->op; c++) {
        char name[BENCH_OP_NAME];
        give(s, "case", bench_op_name(c, name), c->torch ? c->torch : "PyTorch has no such op");
    }
}

static void list_collectives(const struct search *s)
{
    lk_coll_info a;
    for (int i = 0; lk_coll_list(i, &a); i++) {
        char name[64], about[256];
        snprintf(name, sizeof name, "%s %s", a.call, a.name);
        snprintf(about, sizeof about, "%s%s%s%s%s%s", a.summary, a.alias ? "; is " : "",
                 a.alias ? a.alias : "", *a.needs ? "; needs: " : "", a.needs,
                 a.benchmark_only ? "; never chosen" : "");
        give(s, "collective", name, about);
    }
}

static void list_peers(const struct search *s)
{
    for (const peer_entry *e = peer_entries; e->name; e++) {
        if (!wanted(s, e->name))
            continue; /* to open one takes time */
        char why[512], about[768];
        const lk__peer *peer = peer_open(e, why, sizeof why);
        snprintf(about, sizeof about, "%s; %s%s", e->computes,
                 peer ? "found, " : "not found: ", peer ? peer->about() : why);
        give(s, "peer", e->name, about);
    }
    /* A script, not a module; to start it takes seconds, so only the benches do. */
    char path[PEER_PATH];
    give(s, "peer", "torch",
         peer_file("lockstep-peer-torch.py", path, sizeof path)
             ? "ops, chains of them and training steps in f32; runs in the Python of \"make "
               "bench-peers\", or of --python"
             : "ops, chains of them and training steps in f32; not found: its script is not beside "
               "the command");
}

static const struct {
    const char *plural, *singular, *about;
    void (*list)(const struct search *s);
} kinds[] = {
    {"verbs", "verb", "what the command can do", list_verbs},
    {"isas", "isa", "instruction sets", list_isas},
    {"dtypes", "dtype", "element types", list_dtypes},
    {"kernels", "kernel", "computations, with their formulas", list_kernels},
    {"ops", "op", "differentiable ops, with their formulas", list_ops},
    {"nodes", "node", "differentiable communication, with its formulas", list_nodes},
    {"collectives", "collective", "algorithms of collective calls, and what they need",
     list_collectives},
    {"checks", "check", "what \"lockstep selfcheck\" checks", list_checks},
    {"benches", "bench", "kinds of \"lockstep bench\"", list_benches},
    {"cases", "case", "of \"lockstep bench kernels\", and of \"bench ops\" with PyTorch's words",
     list_cases},
    {"peers", "peer", "libraries for \"lockstep bench --against\"", list_peers},
};

enum { N_OWN = sizeof kinds / sizeof kinds[0] };

const char *things_plural(int i)
{
    if (i < N_OWN)
        return kinds[i].plural;
    return lk__kinds[i - N_OWN] ? lk__kinds[i - N_OWN]->plural : NULL;
}

const char *things_singular(int i)
{
    return i < N_OWN ? kinds[i].singular : lk__kinds[i - N_OWN]->name;
}

const char *things_about(int i)
{
    return i < N_OWN ? kinds[i].about : lk__kinds[i - N_OWN]->summary;
}

int things_find(const char *name)
{
    for (int i = 0; things_plural(i); i++)
        if (strcmp(things_plural(i), name) == 0 || strcmp(things_singular(i), name) == 0)
            return i;
    return -1;
}

void things_each(int i, const char *only, thing_fn *fn, void *arg)
{
    const struct search s = {only, fn, arg};
    if (i < N_OWN) {
        kinds[i].list(&s);
        return;
    }
    const lk_registry *kind = lk__kinds[i - N_OWN];
    const lk_descriptor *e;
    for (int j = 0; (e = kind->at(j)); j++)
        if (wanted(&s, e->name))
            fn(arg, &(thing){.kind = kind->name,
                             .name = e->name,
                             .about = e->summary,
                             .chosen = kind,
                             .descriptor = e});
}

bool thing_is(const char *name, const char *wanted_name)
{
    size_t n = strlen(wanted_name);
    const char *word = strchr(name, ' ');
    if (strcmp(name, wanted_name) == 0)
        return true;
    return word && ((strncmp(name, wanted_name, n) == 0 && name[n] == ' ') ||
                    strcmp(word + 1, wanted_name) == 0);
}
