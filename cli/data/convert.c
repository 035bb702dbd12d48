/* lockstep data convert: write a set in another format. */
#include "data/dataset.h"
#include "report.h"
#include "verb.h"

#include <lockstep/lockstep.h>

#include <string.h>

struct convert_options {
    dataset_choice choice;
    const char *to;
    int set;
    int64_t files;
    bool gzip, json;
};

static const lk_option options[] = {
    {"type", LK_OPTION_TEXT, offsetof(struct convert_options, choice.type), .value = "FORMAT",
     .help = "the format of IN; by default guessed from the name and the first bytes"},
    {"options", LK_OPTION_TEXT, offsetof(struct convert_options, choice.options), .value = "TEXT",
     .help = "options of that format, such as \"label=none\"; they can also be operands"},
    {"to", LK_OPTION_TEXT, offsetof(struct convert_options, to), .value = "FORMAT",
     .help = "the format of OUT; by default that of its suffix: .tfrecord, .npy, .npz, .csv"},
    {"files", LK_OPTION_INT, offsetof(struct convert_options, files), .value = "N", .def = "0",
     .min = 0, .max = 99999,
     .help = "write records to N files, each with a range of the samples: for OUT NAME.tfrecord "
             "NAME-00000-of-N.tfrecord and so on; 0: to OUT"},
    {"gzip", LK_OPTION_FLAG, offsetof(struct convert_options, gzip),
     .help = "pack files of records by gzip; so are those whose name ends in .gz"},
    {"set", LK_OPTION_CHOICE, offsetof(struct convert_options, set), .value = "SET", .def = "train",
     .choices = "train validation test", .help = "which set of IN: train, validation or test"},
    {"json", LK_OPTION_FLAG, offsetof(struct convert_options, json),
     .help = "print one JSON object"},
    {.name = NULL},
};

static const report_column columns[] = {
    {"path", "path", -1}, {"samples", "samples", 1}, {"hash", "hash", -16}};

static lk_status convert(const struct convert_options *o, const char *in, const char *to,
                         lk_arena *arena, lk_dataset **ds)
{
    lk_config config;
    LK_TRY(dataset_choose(&o->choice, in, arena, &config));
    LK_TRY(lk_dataset_open_config(&config, (lk_split)o->set, ds));
    LK_CHECK(*ds, LK_EINVAL, "%s: it has no %s set", in ? in : config.descriptor->name,
             lk_split_name((lk_split)o->set));
    uint64_t hash;
    char text[LK_HASH_TEXT], writing[64] = "";
    const char *path;
    if (o->files > 0)
        snprintf(writing, sizeof writing, "files=%lld", (long long)o->files);
    if (o->gzip)
        snprintf(writing + strlen(writing), 16, "%sgzip=true", o->files > 0 ? " " : "");
    LK_TRY(lk_format_written(o->to, writing, to, arena, &path));
    LK_TRY(lk_dataset_write_as(*ds, o->to, writing, (lk_split)o->set, to));
    LK_TRY(lk_dataset_hash(*ds, &hash));
    report out;
    report_keep(&out, columns, 3, o->json);
    report_row(&out, (report_cell[]){cell_text(path), cell_int(lk_dataset_info_of(*ds)->count),
                                     cell_text(lk_hash_text(hash, text))});
    report_end(&out);
    return LK_OK;
}

static int convert_run(const void *given, int n, char **operand)
{
    struct convert_options o = *(const struct convert_options *)given;
    const char *path[2] = {NULL};
    lk_arena *arena;
    lk_dataset *ds = NULL;
    if (lk_arena_new(&arena) != LK_OK)
        return verb_failed();
    int paths = dataset_operands(&o.choice, "lockstep data convert", n, operand, 2, path, arena);
    int status = LK_EXIT_USAGE;
    if (paths == 0)
        (void)verb_refuse("lockstep data convert: OUT, the file to write, is missing");
    if (paths > 0) {
        lk_status st = convert(&o, paths > 1 ? path[0] : NULL, path[paths - 1], arena, &ds);
        status = st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
    }
    lk_dataset_free(ds);
    lk_arena_free(arena);
    return status;
}

const lk__verb lk__data_kind_convert = {
    .name = "convert",
    .summary = "write a set in another format: tfrecord, npy, npz, idx, csv",
    .operands = "[IN] OUT [KEY=VALUE...]",
    .about =
        "Writes a set of the file or folder IN, or of a generator (--type glyphs, without IN), "
        "to OUT. The format follows from the suffix of OUT or from --to; idx makes a folder, in "
        "which --set says whose files are written. KEY=VALUE sets an option of IN's format, such "
        "as count=200. Records can be written to many files (--files), which take their names when "
        "all are complete, and packed (--gzip). It prints the name of the file, or the pattern of "
        "the "
        "files. The hash is of the content that was read.",
    .options = options,
    .options_size = sizeof(struct convert_options),
    .min_operands = 1,
    .max_operands = 1000,
    .run = convert_run,
};
