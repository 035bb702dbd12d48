/* lockstep data inspect: the sets of a file, folder or generator; fields, ranges, hashes. */
#include "data/dataset.h"
#include "report.h"
#include "verb.h"

#include <lockstep/lockstep.h>

struct inspect_options {
    dataset_choice choice;
    bool json;
};

static const lk_option options[] = {
    {"type", LK_OPTION_TEXT, offsetof(struct inspect_options, choice.type), .value = "FORMAT",
     .help = "the format; by default guessed from the name and the first bytes"},
    {"options", LK_OPTION_TEXT, offsetof(struct inspect_options, choice.options), .value = "TEXT",
     .help =
         "options of the format, such as \"dtype=u8 shape=64,64,64,1\"; they can also be operands"},
    {"json", LK_OPTION_FLAG, offsetof(struct inspect_options, json),
     .help = "print one JSON object for each field of each set"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"set", "set", -5},      {"field", "field", -1},    {"dtype", "dtype", -1},
    {"shape", "shape", -12}, {"samples", "samples", 8}, {"classes", "classes", 1},
    {"min", "min", 8},       {"max", "max", 8},         {"mean", "mean", 8},
    {"hash", "hash", -16},   {"skipped", NULL, 0},      {"gaps", NULL, 0},
};

/* Only where something is left out. */
static report_cell cell_left_out(const lk_dataset_info *info, int64_t n)
{
    return info->skipped > 0 || info->gaps > 0 ? cell_int(n) : cell_none();
}

static lk_status print_set(lk_dataset *ds, lk_split split, report *out)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    uint64_t hash;
    char text[LK_HASH_TEXT];
    LK_TRY(lk_dataset_hash(ds, &hash));
    if (info->n_fields == 0)
        report_row(out,
                   (report_cell[]){cell_text(lk_split_name(split)), cell_none(), cell_none(),
                                   cell_none(), cell_int(info->count), cell_none(), cell_none(),
                                   cell_none(), cell_none(), cell_text(lk_hash_text(hash, text)),
                                   cell_none(), cell_none()});
    for (int f = 0; f < info->n_fields; f++) {
        const lk_field *field = &info->field[f];
        lk_short_string shape = lk_shape_text(field->shape);
        bool labels = info->classes > 0 && f == lk_dataset_find(ds, "y");
        dataset_range range;
        LK_TRY(dataset_measure(ds, f, &range));
        report_row(out, (report_cell[]){
                            cell_text(lk_split_name(split)), cell_text(field->name),
                            cell_text(lk_dtype_name(field->dtype)), cell_text(shape.s),
                            cell_int(info->count), labels ? cell_int(info->classes) : cell_none(),
                            cell_real(range.min, 3), cell_real(range.max, 3),
                            cell_real(range.mean, 4), cell_text(lk_hash_text(hash, text)),
                            cell_left_out(info, info->skipped), cell_left_out(info, info->gaps)});
    }
    return LK_OK;
}

/* All sets of a config. */
static lk_status print_sets(const lk_config *config, report *out)
{
    for (int split = 0; split < LK_N_SPLITS; split++) {
        lk_dataset *ds;
        LK_TRY(lk_dataset_open_config(config, (lk_split)split, &ds));
        lk_status st = ds ? print_set(ds, (lk_split)split, out) : LK_OK;
        lk_dataset_free(ds);
        LK_TRY(st);
    }
    return LK_OK;
}

static lk_status inspect(const struct inspect_options *o, const char *path, lk_arena *arena)
{
    lk_config config;
    LK_TRY(dataset_choose(&o->choice, path, arena, &config));
    report out;
    if (!o->json)
        printf("%s: %s\n\n", config.descriptor->name, config.descriptor->summary);
    report_keep(&out, columns, sizeof columns / sizeof columns[0], o->json);
    lk_status st = print_sets(&config, &out);
    report_end(&out);
    return LK_TRACE(st);
}

static int inspect_run(const void *given, int n, char **operand)
{
    struct inspect_options o = *(const struct inspect_options *)given;
    const char *path = NULL;
    lk_arena *arena;
    if (lk_arena_new(&arena) != LK_OK)
        return verb_failed();
    int status = LK_EXIT_USAGE;
    if (dataset_operands(&o.choice, "lockstep data inspect", n, operand, 1, &path, arena) >= 0) {
        lk_status st = inspect(&o, path, arena);
        status = st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
    }
    lk_arena_free(arena);
    return status;
}

const lk__verb lk__data_kind_inspect = {
    .name = "inspect",
    .summary = "the sets of a file or folder: fields, samples, ranges, hash",
    .operands = "[FILE | FOLDER] [KEY=VALUE...]",
    .about =
        "Reads all samples of all sets that a file, a folder or a generator (--type glyphs) has, "
        "and prints for each field its type, shape and range, with the number of samples and "
        "the hash of the set's content. KEY=VALUE sets an option of the format, such as count=200.",
    .options = options,
    .options_size = sizeof(struct inspect_options),
    .max_operands = 1000,
    .run = inspect_run,
};
