/* lockstep list: what is built in, by kind. */
#include "bench_case.h"
#include "check.h"
#include "kinds.h"
#include "peers.h"
#include "plural.h"
#include "report.h"
#include "verb.h"

#include <lockstep/coll.h>
#include <lockstep/dist_check.h>
#include <lockstep/isa.h>
#include <lockstep/map.h>
#include <lockstep/op.h>
#include <lockstep/reduce.h>
#include <lockstep/suggest.h>

#include <string.h>

struct list_options {
    bool json, markdown;
};

static const lk_option options[] = {
    {.name = "json",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(struct list_options, json),
     .help = "print one JSON object for each entry"},
    {.name = "markdown",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(struct list_options, markdown),
     .help = "print the reference page of what experiments are made of"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"kind", "kind", -1},
    {"name", "name", -1},
    {"about", "about", -1},
};

static const report_column kind_columns[] = {
    {"kind", "kind", -1},
    {"entries", "entries", 1},
    {"about", "about", -1},
};

static void entry(report *out, const char *kind, const char *name, const char *about)
{
    report_row(out, (report_cell[]){cell_text(kind), cell_text(name), cell_text(about)});
}

static void list_verbs(report *out)
{
    for (int i = 0; lk_verbs[i]; i++)
        entry(out, "verb", lk_verbs[i]->name, lk_verbs[i]->summary);
}

static void list_isas(report *out)
{
    for (int i = 0; i < LK_N_ISAS; i++)
        entry(out, "isa", lk_isa_name((lk_isa)i), lk_isa_needs((lk_isa)i));
}

static void list_dtypes(report *out)
{
    for (int i = 0; i < LK_N_DTYPES; i++) {
        char about[64];
        snprintf(about, sizeof about, "%zu byte%s%s", lk_dtype_size((lk_dtype)i),
                 plural((int64_t)lk_dtype_size((lk_dtype)i)),
                 lk_dtype_is_real((lk_dtype)i) ? ", arithmetic" : "");
        entry(out, "dtype", lk_dtype_name((lk_dtype)i), about);
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

static void list_kernels(report *out)
{
    char name[64];
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        entry(out, "kernel", kernels[i].name, kernels[i].about);
    for (int i = 0; i < LK_N_MAP1; i++) {
        snprintf(name, sizeof name, "map1 %s", lk_map1_name((lk_map1_op)i));
        entry(out, "kernel", name, lk_map1_formula((lk_map1_op)i));
    }
    for (int i = 0; i < LK_N_MAP2; i++) {
        snprintf(name, sizeof name, "map2 %s", lk_map2_name((lk_map2_op)i));
        entry(out, "kernel", name, lk_map2_formula((lk_map2_op)i));
    }
    for (int i = 0; i < LK_N_REDUCE; i++) {
        snprintf(name, sizeof name, "reduce %s", lk_reduce_name((lk_reduce_op)i));
        entry(out, "kernel", name, lk_reduce_formula((lk_reduce_op)i));
    }
}

static void list_ops(report *out)
{
    for (int i = 0; lk_ops[i]; i++)
        entry(out, "op", lk_ops[i]->name, lk_ops[i]->summary);
}

static void list_nodes(report *out)
{
    for (int i = 0; lk_dist_checks[i]; i++)
        entry(out, "node", lk_dist_checks[i]->name, lk_dist_checks[i]->summary);
}

static void list_checks(report *out)
{
    for (int i = 0; lk_checks[i]; i++)
        entry(out, "check", lk_checks[i]->name, lk_checks[i]->summary);
}

static void list_benches(report *out)
{
    for (int i = 0; lk_bench_kinds[i]; i++)
        entry(out, "bench", lk_bench_kinds[i]->name, lk_bench_kinds[i]->summary);
}

static void list_cases(report *out)
{
    for (int i = 0; i < bench_n_cases(); i++) {
        bench_case c;
        bench_case_get(i, &c);
        char about[64];
        snprintf(about, sizeof about, "%.4g MFLOP", 1e-6 * c.flop);
        entry(out, "case", c.name, about);
    }
}

static void list_collectives(report *out)
{
    lk_coll_about a;
    for (int i = 0; lk_coll_list(i, &a); i++) {
        char name[64], about[256];
        snprintf(name, sizeof name, "%s %s", a.call, a.name);
        snprintf(about, sizeof about, "%s%s%s%s%s%s", a.summary, a.alias ? "; is " : "",
                 a.alias ? a.alias : "", *a.needs ? "; needs: " : "", a.needs,
                 a.measures_only ? "; never chosen" : "");
        entry(out, "collective", name, about);
    }
}

static void list_peers(report *out)
{
    for (const peer_entry *e = peer_entries; e->name; e++) {
        char why[512], about[768];
        const lk_peer *peer = peer_open(e, why, sizeof why);
        snprintf(about, sizeof about, "%s; %s%s", e->computes,
                 peer ? "found, " : "not found: ", peer ? peer->about() : why);
        entry(out, "peer", e->name, about);
    }
    /* A script, not a module; to start it takes seconds, so only "bench tape" and "bench step" do. */
    char path[PEER_PATH];
    entry(out, "peer", "torch",
          peer_file("lockstep-peer-torch.py", path, sizeof path)
              ? "chains of ops and training steps in f32; runs in the Python of "
                "\"bench tape --python\" and \"bench step --python\""
              : "chains of ops and training steps in f32; not found: its script is not beside the "
                "command");
}

static const struct {
    const char *name, *about;
    void (*list)(report *out);
} kinds[] = {
    {"verbs", "what the command can do", list_verbs},
    {"isas", "instruction sets", list_isas},
    {"dtypes", "element types", list_dtypes},
    {"kernels", "computations, with their formulas", list_kernels},
    {"ops", "differentiable ops, with their formulas", list_ops},
    {"nodes", "differentiable communication, with its formulas", list_nodes},
    {"collectives", "algorithms of collective calls, and what they need", list_collectives},
    {"checks", "what \"lockstep selfcheck\" checks", list_checks},
    {"benches", "kinds of \"lockstep bench\"", list_benches},
    {"cases", "shapes of \"lockstep bench kernels\"", list_cases},
    {"peers", "libraries for \"lockstep bench --against\"", list_peers},
};

enum { N_OWN = sizeof kinds / sizeof kinds[0] };

/* Kinds are numbered: those above, then what experiments choose from.  NULL behind the last. */
static const char *kind_name(int i)
{
    if (i < N_OWN)
        return kinds[i].name;
    return lk_kinds[i - N_OWN] ? lk_kinds[i - N_OWN]->plural : NULL;
}

static const char *kind_about(int i)
{
    return i < N_OWN ? kinds[i].about : lk_kinds[i - N_OWN]->summary;
}

static void list_kind(report *out, int i)
{
    if (i < N_OWN) {
        kinds[i].list(out);
        return;
    }
    const lk_kind *kind = lk_kinds[i - N_OWN];
    const lk_entry *e;
    for (int j = 0; (e = kind->at(j)); j++)
        entry(out, kind->name, e->name, e->summary);
}

static int unknown_kind(const char *name)
{
    lk_suggestion s = {.wanted = name};
    fprintf(stderr, "error: lockstep list: unknown kind \"%s\"", name);
    for (int i = 0; kind_name(i); i++)
        lk_suggest_consider(&s, kind_name(i));
    if (lk_suggest_found(&s))
        fprintf(stderr, "; did you mean \"%s\"?", s.best);
    fprintf(stderr, "\n  kinds are");
    for (int i = 0; kind_name(i); i++)
        fprintf(stderr, " %s,", kind_name(i));
    fputs(" and all\n", stderr);
    return LK_EXIT_USAGE;
}

/* How many entries there are of each kind. */
static void list_kinds(report *out)
{
    for (int i = 0; kind_name(i); i++) {
        report entries;
        report_measure(&entries, columns, 3, false);
        list_kind(&entries, i);
        report_row(out, (report_cell[]){cell_text(kind_name(i)), cell_int(entries.measured),
                                        cell_text(kind_about(i))});
    }
}

/* The entries of one kind, or of all of them: name NULL. */
static void list_named(report *out, const char *name)
{
    for (int i = 0; kind_name(i); i++)
        if (!name || strcmp(kind_name(i), name) == 0)
            list_kind(out, i);
}

static int list_run(const void *given, int n, char **operand)
{
    const struct list_options *o = given;
    report out;
    if (o->markdown) {
        kinds_markdown(stdout);
        return LK_EXIT_DONE;
    }
    if (n == 0) {
        report_measure(&out, kind_columns, 3, o->json);
        list_kinds(&out);
        report_print(&out);
        list_kinds(&out);
        if (!o->json)
            printf("\nlockstep list KIND lists one kind, lockstep list all everything\n");
        return LK_EXIT_DONE;
    }
    const char *name = strcmp(operand[0], "all") == 0 ? NULL : operand[0];
    int found = 0;
    while (name && kind_name(found) && strcmp(kind_name(found), name) != 0)
        found++;
    if (name && !kind_name(found))
        return unknown_kind(name);
    report_measure(&out, columns, 3, o->json);
    list_named(&out, name);
    report_print(&out);
    list_named(&out, name);
    return LK_EXIT_DONE;
}

const lk_verb lk_verb_list = {
    .name = "list",
    .summary = "what is built in: verbs, layers, optimizers, data formats, kernels, ops, ...",
    .operands = "[KIND]",
    .about =
        "Lists what is built in, of one kind, or all. Without KIND it prints which kinds there "
        "are, "
        "and how many entries of each. \"lockstep help layer conv\" explains one layer, and so on.",
    .options = options,
    .options_size = sizeof(struct list_options),
    .max_operands = 1,
    .run = list_run,
};
