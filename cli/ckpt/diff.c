/* lockstep ckpt diff: two files, tensor by tensor. */
#include "ckpt/tensors.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/lockstep.h>

#include <string.h>

struct diff_options {
    bool all, json;
};

static const lk_option options[] = {
    {"all", LK_OPTION_FLAG, offsetof(struct diff_options, all),
     .help = "print the tensors that are equal as well"},
    {"json", LK_OPTION_FLAG, offsetof(struct diff_options, json),
     .help = "print one JSON object for each tensor that is printed"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"name", "tensor", -12},      {"first", "first", -10},      {"second", "second", -10},
    {"equal", "bits", -6},        {"elements", "differing", 9}, {"absolute", "largest", 10},
    {"relative", "relative", 10},
};

enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

/* Tensors of two files by name; what is printed, and how many are not equal. */
typedef struct pair {
    const lk_tensors *a, *b;
    bool all;
    int64_t unequal;
} pair;

static report_cell kind_cell(const lk_tensor *t, lk_short_string *text)
{
    *text = lk_tensor_text(t);
    return t ? cell_text(text->s) : cell_none();
}

/* One of the two may be missing. */
static lk_status print_pair(pair *p, const char *name, const lk_tensor *a, const lk_tensor *b,
                            report *out)
{
    lk_short_string text[2];
    difference d = {0};
    bool equal = a && b && lk_tensor_is_equal(a, b);
    bool comparable = a && b && lk_shape_is_equal(lk_tensor_shape(a), lk_tensor_shape(b));
    p->unequal += !equal;
    if (equal && !p->all)
        return LK_OK;
    if (comparable && !equal)
        LK_TRY(numbers_compare(a, b, &d));
    report_row(out, (report_cell[]){
                        cell_text(name), kind_cell(a, &text[0]), kind_cell(b, &text[1]),
                        cell_bool(equal, equal ? "equal" : "differ", equal ? TERM_GREEN : TERM_RED),
                        comparable ? cell_int(d.elements) : cell_none(),
                        comparable ? cell_real(d.absolute, -2) : cell_none(),
                        comparable ? cell_real(d.relative, -2) : cell_none()});
    return LK_OK;
}

/* Both lists are sorted by name. */
static lk_status print_all(pair *p, report *out)
{
    int64_t i = 0, k = 0;
    p->unequal = 0;
    while (i < p->a->n || k < p->b->n) {
        int order = i == p->a->n   ? 1
                    : k == p->b->n ? -1
                                   : strcmp(p->a->tensor[i].name, p->b->tensor[k].name);
        const char *name = order <= 0 ? p->a->tensor[i].name : p->b->tensor[k].name;
        const lk_tensor *a = order <= 0 ? p->a->tensor[i++].tensor : NULL;
        const lk_tensor *b = order >= 0 ? p->b->tensor[k++].tensor : NULL;
        LK_TRY(print_pair(p, name, a, b, out));
    }
    return LK_OK;
}

static lk_status diff(pair *p, bool json)
{
    report out;
    report_measure(&out, columns, N_COLUMNS, json);
    LK_TRY(print_all(p, &out));
    if (out.measured > 0) {
        report_print(&out);
        LK_TRY(print_all(p, &out));
    }
    return LK_OK;
}

static int diff_run(const void *given, int n, char **operand)
{
    const struct diff_options *o = given;
    lk_tensors *a = NULL, *b = NULL;
    pair p = {.all = o->all};
    (void)n;
    lk_status st = tensors_open(operand[0], &a);
    if (st == LK_OK)
        st = tensors_open(operand[1], &b);
    if (st == LK_OK) {
        p.a = a;
        p.b = b;
        st = diff(&p, o->json);
    }
    lk_tensors_free(a);
    lk_tensors_free(b);
    if (st != LK_OK)
        return verb_failed_with(st, NULL);
    return p.unequal > 0 ? LK_EXIT_FAILED : LK_EXIT_DONE;
}

const lk__verb lk__ckpt_kind_diff = {
    .name = "diff",
    .summary = "compare two files, tensor by tensor",
    .operands = "FIRST SECOND",
    .about = "Compares tensors of the same name bit by bit, and prints those that differ or that "
             "only one file has, with how many elements differ and by how much at most. Ends with "
             "status 0 if all are equal, 1 if not.",
    .options = options,
    .options_size = sizeof(struct diff_options),
    .min_operands = 2,
    .max_operands = 2,
    .run = diff_run,
};
