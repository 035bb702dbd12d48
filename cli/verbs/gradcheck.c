/* lockstep gradcheck: every op's backward against central differences. */
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/gradcheck.h>
#include <lockstep/suggest.h>

#include <string.h>

struct gradcheck_options {
    bool json;
    int64_t seed;
    double tolerance;
};

#define FIELD(name) offsetof(struct gradcheck_options, name)

static const lk_option options[] = {
    {.name = "seed",
     .type = LK_OPTION_INT,
     .offset = FIELD(seed),
     .value = "N",
     .preset = "1",
     .min = 0,
     .max = 1e15,
     .help = "seed of the inputs and cotangents"},
    {.name = "tolerance",
     .type = LK_OPTION_REAL,
     .offset = FIELD(tolerance),
     .value = "E",
     .preset = "1e-6",
     .min = 1e-12,
     .max = 1,
     .help = "the largest relative error that passes"},
    {.name = "json",
     .type = LK_OPTION_FLAG,
     .offset = FIELD(json),
     .help = "print one JSON object for each op"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"name", "op", -24},   {"samples", "samples", 7}, {"numbers", "numbers", 7},
    {"first", "first", 9}, {"adjoint", "adjoint", 9}, {"second", "second", 9},
    {"error", NULL, 0},    {"pass", "result", -6},    {"failure", NULL, 0},
};

static report_cell error_cell(double error)
{
    return error < 0 ? cell_none() : cell_real(error, -1);
}

/* Check one op and print its row; false if it failed. */
static bool check(const lk_op *op, const struct gradcheck_options *o, report *out)
{
    lk_gradcheck_result r;
    char failure[256] = "";
    lk_status st = lk_gradcheck(op, o->seed, o->tolerance, &r);
    if (st != LK_OK)
        snprintf(failure, sizeof failure, "%s", lk_error_message());
    else if (!r.pass)
        snprintf(failure, sizeof failure, "%s", r.worst);
    double error = r.first > r.second ? r.first : r.second;
    error = error > r.adjoint ? error : r.adjoint;
    bool pass = st == LK_OK && r.pass;
    report_row(out, (report_cell[]){
                        cell_text(op->name),
                        cell_int(r.samples),
                        cell_int(r.numbers),
                        error_cell(r.first),
                        error_cell(r.adjoint),
                        error_cell(r.second),
                        error_cell(error),
                        cell_bool(pass, pass ? "ok" : "FAIL", pass ? TERM_GREEN : TERM_RED),
                        pass ? cell_none() : cell_text(failure),
                    });
    if (!pass)
        fprintf(stderr, "error: %s: %s\n", op->name, failure);
    return pass;
}

static bool is_selected(const lk_op *op, int n, char **names)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], op->name) == 0)
            return true;
    return n == 0;
}

static bool is_known(const char *wanted)
{
    lk_suggestion s = {.wanted = wanted};
    for (int i = 0; lk_ops[i]; i++) {
        if (strcmp(lk_ops[i]->name, wanted) == 0 && lk_ops[i]->backward)
            return true;
        if (strcmp(lk_ops[i]->name, wanted) == 0) {
            fprintf(stderr, "error: lockstep gradcheck: op \"%s\" has no gradient\n", wanted);
            return false;
        }
        lk_suggest_consider(&s, lk_ops[i]->name);
    }
    fprintf(stderr, "error: lockstep gradcheck: no op named \"%s\"", wanted);
    if (lk_suggest_found(&s))
        fprintf(stderr, "; did you mean \"%s\"?", s.best);
    fprintf(stderr, "\n  run \"lockstep list ops\" for the names\n");
    return false;
}

static int gradcheck_run(const void *given, int n, char **operand)
{
    const struct gradcheck_options *o = given;
    report out;
    int checked = 0, failed = 0;
    for (int i = 0; i < n; i++)
        if (!is_known(operand[i]))
            return LK_EXIT_USAGE;
    report_begin(&out, columns, sizeof columns / sizeof columns[0], o->json);
    for (int i = 0; lk_ops[i]; i++) {
        if (!lk_ops[i]->backward || !is_selected(lk_ops[i], n, operand))
            continue;
        checked++;
        failed += !check(lk_ops[i], o, &out);
    }
    if (!o->json && failed)
        printf("\n%d op%s, tolerance %g: %d FAILED\n", checked, checked == 1 ? "" : "s",
               o->tolerance, failed);
    else if (!o->json)
        printf("\n%d op%s, tolerance %g: all pass\n", checked, checked == 1 ? "" : "s",
               o->tolerance);
    return failed ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

const lk_verb lk_verb_gradcheck = {
    .name = "gradcheck",
    .summary = "check every op's backward against central differences",
    .operands = "[NAME...]",
    .about =
        "Checks ops on their own samples, in f64, with random cotangents: first derivatives by "
        "backward against differences of fourth order, the adjoint identity <c, F x> = <F* c, x> "
        "for linear ops, and second derivatives through the recorded backward. Shows the largest "
        "relative error of each. The exit status is 1 if one is above the tolerance.\n"
        "NAME is an op (\"lockstep list ops\"); all that have a gradient by default.\n"
        "JSON: name, samples, numbers, first, adjoint, second, error (the largest of these), pass, "
        "failure.",
    .options = options,
    .options_size = sizeof(struct gradcheck_options),
    .max_operands = 256,
    .computes = true,
    .run = gradcheck_run,
};
