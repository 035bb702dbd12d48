/* lockstep ckpt inspect: the tensors of a file and its metadata; of a checkpoint also its parts. */
#include "ckpt/tensors.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/lockstep.h>

struct inspect_options {
    bool json;
};

static const lk_option options[] = {
    {"json", LK_OPTION_FLAG, offsetof(struct inspect_options, json),
     .help = "print one JSON object for each part of a checkpoint, each tensor and each entry of "
             "the metadata"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"name", "tensor", -12}, {"dtype", "dtype", -5},
    {"shape", "shape", -12}, {"elements", "elements", 9},
    {"min", "min", 11},      {"max", "max", 11},
    {"mean", "mean", 11},    {"not_finite", "not finite", 1},
};

static const report_column metadata_columns[] = {{"metadata", "metadata", -12},
                                                 {"text", "text", -1}};

enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

static report_cell number_cell(double v)
{
    return v == v ? cell_real(v, -4) : cell_none();
}

static lk_status print_tensors(const lk_tensors *file, report *out)
{
    for (int64_t i = 0; i < file->n; i++) {
        const lk_tensor *t = file->tensor[i].tensor;
        lk_short_string shape = lk_shape_text(lk_tensor_shape(t));
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

static void print_metadata(const lk_tensors *file, report *out)
{
    for (int64_t i = 0; i < file->n_metadata; i++)
        report_row(out, (report_cell[]){cell_text(file->metadata[i].name),
                                        cell_text(file->metadata[i].text)});
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
        printf("\n%lld tensor%s, %lld element%s\n", (long long)file->n, plural(file->n),
               (long long)elements, plural(elements));
    if (file->n_metadata == 0)
        return LK_OK;
    if (!json)
        putchar('\n');
    report_measure(&out, metadata_columns, 2, json);
    print_metadata(file, &out);
    report_print(&out);
    print_metadata(file, &out);
    return LK_OK;
}

static const report_column part_columns[] = {{"part", "part", -22},
                                             {"bytes", "bytes", 10},
                                             {"xxh64", "xxh64", -16},
                                             {"tensors", "tensors", 7},
                                             {"verified", "", -7}};

/* The parts, each compared with the MANIFEST; how many are not what it says. */
static int64_t print_parts(const lk_checkpoint *c, bool json)
{
    report out;
    int64_t bad = 0;
    report_begin(&out, part_columns, sizeof part_columns / sizeof part_columns[0], json);
    for (int64_t i = 0; i < c->n_parts; i++) {
        char hash[LK_HASH_TEXT];
        int64_t tensors = 0;
        for (int64_t k = 0; k < c->n_tensors; k++)
            tensors += c->tensor[k].part == i;
        bool good = lk_checkpoint_verify(c, i) == LK_OK;
        report_row(&out,
                   (report_cell[]){
                       cell_text(c->part[i].file), cell_int(c->part[i].bytes),
                       cell_text(lk_hash_text(c->part[i].hash, hash)), cell_int(tensors),
                       cell_bool(good, good ? "ok" : "damaged", good ? TERM_GREEN : TERM_RED)});
        if (!good) {
            fprintf(stderr, "error: %s\n", lk_error_message());
            lk_error_clear();
            bad++;
        }
    }
    return bad;
}

static int inspect_file(const char *path, bool json)
{
    lk_tensors *file;
    lk_status st = lk_tensors_load(path, &file);
    if (st != LK_OK)
        return verb_failed_with(st, NULL);
    st = inspect(file, json);
    lk_tensors_free(file);
    return st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
}

static int inspect_run(const void *given, int n, char **operand)
{
    const struct inspect_options *o = given;
    lk_checkpoint *c;
    (void)n;
    if (!lk_checkpoint_exists(operand[0]))
        return inspect_file(operand[0], o->json);
    lk_status st = checkpoint_open(operand[0], &c);
    if (st != LK_OK)
        return verb_failed_with(st, NULL);
    if (!o->json)
        printf("%s\n\n", c->path);
    int64_t bad = print_parts(c, o->json);
    if (!o->json)
        putchar('\n');
    int status = bad > 0 ? LK_EXIT_FAILED : inspect_file(c->path, o->json);
    lk_checkpoint_free(c);
    return status;
}

const lk__verb lk__ckpt_kind_inspect = {
    .name = "inspect",
    .summary = "the tensors of a file, their ranges, and its metadata",
    .operands = "FILE",
    .about =
        "Prints for each tensor its type, shape and range, with how many elements are infinite "
        "or no number; then the metadata that was written with them. Of a checkpoint first its "
        "parts, "
        "and whether each is what the MANIFEST says; status 1 if one is not.",
    .options = options,
    .options_size = sizeof(struct inspect_options),
    .min_operands = 1,
    .max_operands = 1,
    .run = inspect_run,
};
