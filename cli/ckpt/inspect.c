/* lockstep ckpt inspect: the tensors of a file and its notes. */
#include "numbers.h"
#include "report.h"
#include "verb.h"

#include <lockstep/lockstep.h>

struct inspect_options {
    bool json;
};

static const lk_option options[] = {
    {.name = "json",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(struct inspect_options, json),
     .help = "print one JSON object for each tensor and each note"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"name", "tensor", -12}, {"dtype", "dtype", -5},
    {"shape", "shape", -12}, {"elements", "elements", 9},
    {"min", "min", 11},      {"max", "max", 11},
    {"mean", "mean", 11},    {"not_finite", "not finite", 1},
};

static const report_column note_columns[] = {{"note", "note", -12}, {"text", "text", -1}};

enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

static report_cell number_cell(double v)
{
    return v == v ? cell_real(v, -4) : cell_none();
}

static lk_status print_tensors(const lk_tensors *file, report *out)
{
    for (int64_t i = 0; i < file->n; i++) {
        const lk_tensor *t = file->tensor[i].tensor;
        lk_text shape = lk_shape_text(lk_tensor_shape(t));
        numbers m;
        LK_TRY(numbers_of(t, &m));
        report_row(out, (report_cell[]){cell_text(file->tensor[i].name),
                                        cell_text(lk_dtype_name(lk_tensor_dtype(t))),
                                        cell_text(shape.s), cell_int(lk_tensor_count(t)),
                                        number_cell(m.min), number_cell(m.max), number_cell(m.mean),
                                        cell_int(m.not_finite)});
    }
    return LK_OK;
}

static void print_notes(const lk_tensors *file, report *out)
{
    for (int64_t i = 0; i < file->n_notes; i++)
        report_row(out,
                   (report_cell[]){cell_text(file->note[i].name), cell_text(file->note[i].text)});
}

static lk_status inspect(const lk_tensors *file, bool json)
{
    report out;
    int64_t elements = 0;
    report_measure(&out, columns, N_COLUMNS, json);
    LK_TRY(print_tensors(file, &out));
    report_print(&out);
    LK_TRY(print_tensors(file, &out));
    for (int64_t i = 0; i < file->n; i++)
        elements += lk_tensor_count(file->tensor[i].tensor);
    if (!json)
        printf("\n%lld tensors, %lld elements\n", (long long)file->n, (long long)elements);
    if (file->n_notes == 0)
        return LK_OK;
    if (!json)
        putchar('\n');
    report_measure(&out, note_columns, 2, json);
    print_notes(file, &out);
    report_print(&out);
    print_notes(file, &out);
    return LK_OK;
}

static int inspect_run(const void *given, int n, char **operand)
{
    const struct inspect_options *o = given;
    lk_tensors *file;
    (void)n;
    if (lk_tensors_load(operand[0], &file) != LK_OK)
        return verb_failed();
    lk_status st = inspect(file, o->json);
    lk_tensors_free(file);
    return st == LK_OK ? LK_EXIT_DONE : verb_failed();
}

const lk_verb lk_ckpt_kind_inspect = {
    .name = "inspect",
    .summary = "the tensors of a file, their ranges, and its notes",
    .operands = "FILE",
    .about =
        "Prints for each tensor its type, shape and range, with how many elements are infinite "
        "or no number; then the notes that were written with them.",
    .options = options,
    .options_size = sizeof(struct inspect_options),
    .min_operands = 1,
    .max_operands = 1,
    .run = inspect_run,
};
