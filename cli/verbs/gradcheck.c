/* lockstep gradcheck: the backward of ops, and of communication between ranks, against central
 * differences; and with --layout that of models under random layouts against one rank. */
#include "gradcheck/random_layouts.h"
#include "ranks.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/extra/dist_check.h>
#include <lockstep/extra/suggest.h>

#include <math.h>
#include <string.h>

struct gradcheck_options {
    bool json, layout;
    int64_t seed, ranks, count, steps;
    double tolerance;
    const char *transport;
};

#define FIELD(name) offsetof(struct gradcheck_options, name)

static const lk_option options[] = {
    {"ranks", LK_OPTION_INT, FIELD(ranks), .value = "N", .def = "0", .min = 0, .max = LK_MAX_LOCAL,
     .help = "check communication nodes, on N threads as ranks (under an MPI launcher, on its "
             "ranks); 0: ops"},
    {"transport", LK_OPTION_TEXT, FIELD(transport), .value = "NAME",
     .help =
         "check communication nodes on local, mpi or self; mpi under an MPI launcher by default, "
         "otherwise local"},
    {"layout", LK_OPTION_FLAG, FIELD(layout), .help = "check models under random layouts"},
    {"count", LK_OPTION_INT, FIELD(count), .value = "N", .def = "0", .min = 0, .max = 1000000,
     .help = "with --layout: how many layouts of each model; 0: 12"},
    {"steps", LK_OPTION_INT, FIELD(steps), .value = "N", .def = "0", .min = 0, .max = 1000000,
     .help = "with --layout: steps of each; 0: 3"},
    {"seed", LK_OPTION_INT, FIELD(seed), .value = "N", .def = "1", .min = 0, .max = 1e15,
     .help = "seed of the inputs and cotangents, or of the layouts"},
    {"tolerance", LK_OPTION_REAL, FIELD(tolerance), .value = "E", .def = "1e-6", .min = 1e-12,
     .max = 1, .help = "the largest relative error that passes"},
    {"json", LK_OPTION_FLAG, FIELD(json),
     .help = "print one JSON object for each op, node or layout"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"name", "name", -24}, {"samples", "samples", 7}, {"numbers", "numbers", 7},
    {"first", "first", 9}, {"adjoint", "adjoint", 9}, {"second", "second", 9},
    {"single", "f32", 9},  {"error", NULL, 0},        {"pass", "result", -6},
    {"failure", NULL, 0},
};

static report_cell error_cell(double error)
{
    return error < 0 ? cell_none() : cell_real(error, -1);
}

/* Print a row of what `st` and `r` say about `name`; false if it failed. */
static bool row(const char *name, lk_status st, const lk_gradcheck_result *r, report *out)
{
    bool pass = st == LK_OK && r->pass;
    const char *failure = st == LK_OK ? r->worst : lk_error_message();
    double error = fmax(fmax(r->first, r->second), r->adjoint);
    report_row(out, (report_cell[]){
                        cell_text(name),
                        cell_int(r->samples),
                        cell_int(r->numbers),
                        error_cell(r->first),
                        error_cell(r->adjoint),
                        error_cell(r->second),
                        error_cell(r->single),
                        error_cell(error),
                        cell_bool(pass, pass ? "ok" : "FAIL", pass ? TERM_GREEN : TERM_RED),
                        pass ? cell_none() : cell_text(failure),
                    });
    if (!pass)
        fprintf(stderr, "error: %s: %s\n", name, failure);
    return pass;
}

static bool is_selected(const char *name, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return n == 0;
}

static void summary(const char *what, int checked, int failed, double tolerance)
{
    printf("\n%d %s%s, tolerance %g: ", checked, what, plural(checked), tolerance);
    if (failed)
        printf("%d FAILED\n", failed);
    else
        puts("all pass");
}

/* ---- ops ---- */

/* Whether a name is rather that of an experiment's file, or an assignment to one. */
static bool is_of_experiment(const char *name)
{
    const char *dot = strrchr(name, '.');
    return strpbrk(name, "/=") || (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0));
}

static int unknown(const char *what, const lk_suggestion *s)
{
    bool near = lk_suggest_found(s);
    if (is_of_experiment(s->wanted))
        return verb_refuse("lockstep gradcheck: no %s named \"%s\": an experiment is checked with "
                           "--layout, as in \"lockstep gradcheck --layout FILE.yaml\"",
                           what, s->wanted);
    return verb_refuse("lockstep gradcheck: no %s named \"%s\"%s%s%s\n"
                       "  run \"lockstep list %ss\" for the names",
                       what, s->wanted, near ? "; did you mean \"" : "", near ? s->best : "",
                       near ? "\"?" : "", what);
}

static int op_check_name(const char *wanted)
{
    lk_suggestion s = {.wanted = wanted};
    for (int i = 0; lk_ops[i]; i++) {
        if (strcmp(lk_ops[i]->name, wanted) == 0 && lk_ops[i]->backward)
            return LK_EXIT_DONE;
        if (strcmp(lk_ops[i]->name, wanted) == 0) {
            fprintf(stderr, "error: lockstep gradcheck: op \"%s\" has no gradient\n", wanted);
            return LK_EXIT_USAGE;
        }
        lk_suggest_consider(&s, lk_ops[i]->name);
    }
    return unknown("op", &s);
}

static int ops_run(const struct gradcheck_options *o, int n, char **operand)
{
    report out;
    int checked = 0, failed = 0;
    for (int i = 0; i < n; i++)
        if (op_check_name(operand[i]) != LK_EXIT_DONE)
            return LK_EXIT_USAGE;
    report_begin(&out, columns, sizeof columns / sizeof columns[0], o->json);
    for (int i = 0; lk_ops[i]; i++) {
        lk_gradcheck_result r;
        if (!lk_ops[i]->backward || !is_selected(lk_ops[i]->name, n, operand))
            continue;
        lk_status st = lk_gradcheck(lk_ops[i], o->seed, o->tolerance, &r);
        failed += !row(lk_ops[i]->name, st, &r, &out);
        checked++;
    }
    if (!o->json)
        summary("op", checked, failed, o->tolerance);
    return failed ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

/* ---- communication nodes ---- */

static int node_check_name(const char *wanted)
{
    lk_suggestion s = {.wanted = wanted};
    for (int i = 0; lk_dist_checks[i]; i++) {
        if (strcmp(lk_dist_checks[i]->name, wanted) == 0)
            return LK_EXIT_DONE;
        lk_suggest_consider(&s, lk_dist_checks[i]->name);
    }
    return unknown("node", &s);
}

struct nodes {
    const struct gradcheck_options *o;
    int n_names;
    char **names;
    int failed; /* written by rank 0 */
};

/* One rank; rank 0 prints. */
static lk_status nodes_check(lk_comm *comm, void *arg)
{
    struct nodes *run = arg;
    const struct gradcheck_options *o = run->o;
    report out;
    bool prints = lk_comm_rank(comm) == 0;
    int checked = 0, failed = 0;
    if (prints && !o->json)
        printf("%d rank%s, transport %s\n\n", lk_comm_size(comm), plural(lk_comm_size(comm)),
               lk_comm_transport(comm));
    if (prints)
        report_begin(&out, columns, sizeof columns / sizeof columns[0], o->json);
    for (int i = 0; lk_dist_checks[i]; i++) {
        lk_gradcheck_result r;
        if (!is_selected(lk_dist_checks[i]->name, run->n_names, run->names))
            continue;
        lk_status st = lk_gradcheck_dist(comm, lk_dist_checks[i], o->seed, o->tolerance, &r);
        if (prints)
            row(lk_dist_checks[i]->name, st, &r, &out);
        LK_TRY(st);
        failed += !r.pass;
        checked++;
    }
    if (!prints)
        return LK_OK;
    run->failed = failed;
    if (!o->json)
        summary("node", checked, failed, o->tolerance);
    return LK_OK;
}

/* On the ranks of the job, or on threads. */
static int nodes_run(struct nodes *run, lk_comm *comm)
{
    const struct gradcheck_options *o = run->o;
    for (int i = 0; i < run->n_names; i++)
        if (node_check_name(run->names[i]) != LK_EXIT_DONE)
            return LK_EXIT_USAGE;
    lk_status st = comm ? nodes_check(comm, run)
                        : lk_run_local(o->ranks > 0 ? (int)o->ranks : 2, nodes_check, run);
    if (st != LK_OK)
        return verb_failed_with(st, NULL);
    return run->failed ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

/* ---- layouts ---- */

enum { USUAL_COUNT = 12, USUAL_STEPS = 3 };

static int layouts_run(const struct gradcheck_options *o, int n, char **operand)
{
    if (o->ranks > 0 || o->transport)
        return verb_refuse("lockstep gradcheck: option --%s: --layout starts ranks as its layouts "
                           "need them",
                           o->transport ? "transport" : "ranks");
    return gradcheck_layout_run(
        &(gradcheck_layout_options){.seed = o->seed,
                                    .count = o->count > 0 ? o->count : USUAL_COUNT,
                                    .steps = o->steps > 0 ? o->steps : USUAL_STEPS,
                                    .json = o->json},
        n, operand);
}

static int gradcheck_run(const void *given, int n, char **operand)
{
    struct nodes run = {.o = given, .n_names = n, .names = operand};
    lk_comm *comm = NULL;
    if (run.o->layout)
        return layouts_run(run.o, n, operand);
    if (run.o->count > 0 || run.o->steps > 0)
        return verb_refuse("lockstep gradcheck: option --%s: it goes with --layout",
                           run.o->count > 0 ? "count" : "steps");
    int status = ranks_open_on(run.o->transport, &comm);
    if (status == LK_EXIT_DONE) {
        bool alone = !run.o->transport && strcmp(lk_comm_transport(comm), "self") == 0;
        status = alone && run.o->ranks == 0 ? ops_run(run.o, n, operand)
                                            : nodes_run(&run, alone ? NULL : comm);
    }
    ranks_close(comm);
    return status;
}

const lk__verb lk__verb_gradcheck = {
    .name = "gradcheck",
    .summary = "check the backward of ops, of communication and of layouts",
    .operands = "[NAME...] | --layout [FILE.yaml] [KEY=VALUE...]",
    .about =
        "Checks ops on their own samples, in f64, with random cotangents: first derivatives by "
        "backward against differences of fourth order, the adjoint identity <c, F x> = <F* c, x> "
        "for linear ops, and second derivatives through the recorded backward. Shows the largest "
        "relative error of each. The exit status is 1 if one is above the tolerance.\n"
        "NAME is an op (\"lockstep list ops\"); all that have a gradient by default.\n"
        "With --ranks, with --transport, or under an MPI launcher it checks the nodes that "
        "communicate "
        "instead (\"lockstep list nodes\"): the same on all ranks, with cotangents that differ "
        "between them, for the sum of all ranks' losses, on all ranks and on the two halves of a "
        "split; and the gradients in f32 against those in f64, which may be 1e-4 apart.\n"
        "JSON: name, samples, numbers, first, adjoint, second, single (in f32, of nodes), error "
        "(the "
        "largest in f64), pass, failure.\n"
        "With --layout it trains a few steps of an experiment on one rank, then under random "
        "layouts of up to 16 (parts of the batch, tiles, features, stages, and products of them, "
        "with random schedules), which its shards, pieces and layers allow, and compares what each "
        "step leaves, byte by byte: parameters, gradients, statistics and loss. So that gradients "
        "are seen, its optimizer is replaced by one that keeps them: what is told of the "
        "optimizer's momentum is the gradient. The exit status is 1 if a byte differs; then it "
        "names the step, layer, tensor and element. At the end it counts the nodes that the "
        "layouts had on all ranks, by kind. Without a file it checks models of its own, which have "
        "every type of layer; there the status is 1 as well if no layout had a node of some kind.\n"
        "JSON: an object a layout: model, layout, ranks, schedule, lag, micro_batch, recompute "
        "(these four with stages), nodes, pass, failure; then one a kind: kind, nodes, forward, "
        "backward (what travels).",
    .options = options,
    .options_size = sizeof(struct gradcheck_options),
    .max_operands = 256,
    .computes = true,
    .ranks = true,
    .run = gradcheck_run,
};
