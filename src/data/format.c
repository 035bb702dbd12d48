/* The registry of data formats: lk_dataset_open() by name or by guessing from the files, writing,
 * and checks of labels that formats share. */
#include "data/format.h"

#include "base/fpenv.h"
#include "base/storage/storage.h"
#include "data/dataset.h"
#include "data/files.h"
#include "data/source.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/suggest.h>

#include <errno.h>
#include <string.h>

extern const lk_format *const lk__formats[]; /* collected by the build */

static const lk_descriptor *format_at(int i)
{
    return lk__formats[i] ? &lk__formats[i]->descriptor : NULL;
}

const lk_registry lk_registry_format = {
    .name = "format",
    .plural = "formats",
    .summary = "data formats and generated sets",
    .at = format_at,
};

const char *lk_split_name(lk_split split)
{
    static const char *const names[] = {"train", "validation", "test"};
    return (unsigned)split < LK_N_SPLITS ? names[split] : "?";
}

/* An entry of lk_registry_format is the beginning of a format. */
static const lk_format *format_of(const lk_descriptor *entry)
{
    return (const lk_format *)(const void *)entry;
}

/* Whether an option is the path of a file that this set is read from (LK_PATH_OPTION); `path` may be a
 * folder with all sets. */
static bool is_path_of(const lk_option *o, lk_split split)
{
    bool any = strcmp(o->name, "path") == 0, test = strncmp(o->name, "test", 4) == 0;
    return o->type == LK_OPTION_TEXT && o->value && strcmp(o->value, "PATH") == 0 &&
           (any || test == (split == LK_TEST));
}

/* Paths that lead nowhere are refused with what is expected there, as the format's table says it;
 * behind a semicolon the table goes on with what is done without a path. */
static lk_status paths_check(const lk_config *format, lk_split split)
{
    for (const lk_option *o = format->descriptor->options; o && o->name; o++) {
        if (!is_path_of(o, split))
            continue;
        const char *path = *(const char *const *)((const char *)format->options + o->offset);
        bool is_lost = path && !lk__path_exists(path) && (errno == ENOENT || errno == ENOTDIR);
        LK_CHECK(!is_lost, LK_EIO,
                 "%s: there is no such file or folder; %s of the format %s is %.*s", path, o->name,
                 format->descriptor->name, (int)strcspn(o->help, ";"), o->help);
    }
    return LK_OK;
}

lk_status lk_dataset_open(const char *format, const char *options, lk_split split, lk_dataset **out)
{
    LK_FP_GUARD();
    lk_status st;
    lk_arena *arena = NULL;
    lk_config config;
    *out = NULL;
    LK_TRY_TO(done, lk_arena_new(&arena));
    LK_TRY_TO(done, lk_config_parse(&lk_registry_format, format, options, arena, &config));
    LK_TRY_TO(done, lk_dataset_open_config(&config, split, out));
done:
    lk_arena_free(arena);
    return st;
}

lk_status lk_dataset_open_config(const lk_config *format, lk_split split, lk_dataset **out)
{
    LK_FP_GUARD();
    *out = NULL;
    LK_CHECK(format->descriptor && (unsigned)split < LK_N_SPLITS, LK_EINVAL,
             "no format to open, or no such set (%d)", (int)split);
    lk_arena *arena;
    LK_TRY(lk_arena_new(&arena));
    lk_config filled;
    lk_status st = LK_OK;
    LK_TRY_TO(done, lk_config_with_defaults(format, arena, &filled));
    LK_TRY_TO(done, paths_check(&filled, split));
    LK_TRY_TO(done, format_of(filled.descriptor)->open(filled.options, split, out));
    if (*out) {
        lk__dataset_set_split(*out, split);
        LK_TRY_TO(done, lk__dataset_stamp_options(*out, &filled, split));
    }
done:
    if (st != LK_OK) {
        lk_dataset_free(*out);
        *out = NULL;
    }
    lk_arena_free(arena);
    return st;
}

/* The format of sets in many files whose suffix stands in a path's name, which may be a pattern; NULL: there is
 * none. */
static const char *guess_many(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (int i = 0; lk__formats[i]; i++)
        if (lk__formats[i]->many && strstr(name, lk__formats[i]->suffix))
            return lk__formats[i]->descriptor.name;
    return NULL;
}

/* The same of a file, whose name ends in the suffix. */
static const char *guess_one(const char *name)
{
    for (int i = 0; lk__formats[i]; i++)
        if (lk__formats[i]->many && lk__files_has_suffix(name, lk__formats[i]->suffix))
            return lk__formats[i]->descriptor.name;
    return NULL;
}

/* What a folder holds, by the names of its files. */
static lk_status guess_folder(const char *path, lk_arena *arena, const char **out)
{
    static const struct {
        const char *file, *format;
    } known[] = {
        {"train-images-idx3-ubyte", "idx"}, {"train-images-idx3-ubyte.gz", "idx"},
        {"t10k-images-idx3-ubyte", "idx"},  {"t10k-images-idx3-ubyte.gz", "idx"},
        {"data_batch_1.bin", "cifar10"},    {"train.bin", "cifar100"},
    };
    char file[LK_PATH_SIZE];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        LK_TRY(lk__path_join(path, known[i].file, file, sizeof file));
        if (lk__path_exists(file)) {
            *out = known[i].format;
            return LK_OK;
        }
    }
    const char **name;
    int64_t n;
    LK_TRY(lk__storage_list(path, "", arena, &name, &n));
    for (int64_t i = 0; i < n && !*out; i++)
        *out = guess_one(name[i]);
    return LK_OK;
}

/* The format of a suffix; NULL if no format has it. */
static const lk_format *by_suffix(const char *path)
{
    for (int i = 0; lk__formats[i]; i++)
        if (lk__formats[i]->suffix && lk__path_ends(path, lk__formats[i]->suffix))
            return lk__formats[i];
    return NULL;
}

static lk_status guess_file(const char *path, const char **name)
{
    *name = NULL;
    const lk_format *format = by_suffix(path);
    if (format) {
        *name = format->descriptor.name;
        return LK_OK;
    }
    lk__source *s;
    LK_TRY(lk__source_open(path, &s));
    unsigned char first[4] = {0};
    int64_t n = lk__source_size(s) < 4 ? lk__source_size(s) : 4;
    lk_status st = lk__source_read(s, 0, first, n, "the beginning");
    int64_t size = lk__source_size(s);
    lk__source_free(s);
    LK_TRY(st);
    if (n == 4 && first[0] == 0 && first[1] == 0 && first[3] > 0 && first[3] <= LK_MAX_NDIM)
        *name = "idx";
    else if (size > 0 && lk__path_ends(path, ".bin") && size % 3073 == 0)
        *name = "cifar10";
    else if (size > 0 && lk__path_ends(path, ".bin") && size % 3074 == 0)
        *name = "cifar100";
    return LK_OK;
}

/* The format of the files that a pattern or a list names, by the first of them. */
static lk_status guess_files(const char *text, lk_arena *arena, const char **name)
{
    lk__files files;
    for (int i = 0; lk__formats[i]; i++)
        if (lk__formats[i]->many) {
            LK_TRY(lk__files_find(text, lk__formats[i]->suffix, LK_TRAIN, arena, &files));
            *name = guess_one(files.path[0]);
            return LK_OK;
        }
    return LK_OK;
}

lk_status lk_format_guess(const char *path, lk_arena *arena, lk_config *out)
{
    const char *name = NULL;
    if (lk__path_is_folder(path))
        LK_TRY(guess_folder(path, arena, &name));
    else
        name = guess_many(path);
    if (!name && !lk__path_exists(path))
        LK_TRY(guess_files(path, arena, &name));
    else if (!name && !lk__path_is_folder(path))
        LK_TRY(guess_file(path, &name));
    LK_CHECK(name, LK_ENOTSUP,
             "%s: its name and its first bytes tell no format: name one (lockstep data: --type)",
             path);
    LK_TRY(lk_descriptor_find(&lk_registry_format, name, &out->descriptor));
    LK_TRY(lk_arena_alloc(arena, &out->options, 1, out->descriptor->options_size));
    LK_TRY(lk_options_set_defaults(out->descriptor, out->options, arena));
    return LK_TRACE(
        lk_option_set(lk_option_find(out->descriptor->options, "path"), out->options, path, arena));
}

lk_status lk_dataset_write(const lk_dataset *ds, const char *name, const char *path)
{
    return LK_TRACE(lk_dataset_write_as(ds, name, NULL, LK_TRAIN, path));
}

/* The format to write: of this name, or that of the path's. */
static lk_status writer_find(const char *name, const char *path, const lk_format **out)
{
    const lk_descriptor *entry = NULL;
    *out = by_suffix(path);
    if (!name && !*out)
        name = guess_many(path);
    if (name) {
        LK_TRY(lk_descriptor_find(&lk_registry_format, name, &entry));
        *out = format_of(entry);
    }
    LK_CHECK(*out, LK_EINVAL,
             "%s: its name tells no format to write: name one (lockstep data convert: --to)", path);
    LK_CHECK((*out)->write, LK_ENOTSUP, "%s: the format \"%s\" is only read, not written", path,
             (*out)->descriptor.name);
    return LK_OK;
}

/* The options of writing; NULL if the format has none. */
static lk_status writing_parse(const lk_format *format, const char *options, const char *path,
                               lk_arena *arena, void **out)
{
    *out = NULL;
    LK_CHECK(format->writing || !options || !options[0], LK_EINVAL,
             "%s: the format \"%s\" is written without options such as %s (lockstep data convert: "
             "--files, --gzip)",
             path, format->descriptor.name, options);
    if (!format->writing)
        return LK_OK;
    LK_TRY(lk_arena_alloc(arena, out, 1, format->writing->options_size));
    return LK_TRACE(lk_options_parse(format->writing, options, arena, *out));
}

lk_status lk_dataset_write_as(const lk_dataset *ds, const char *name, const char *options,
                              lk_split split, const char *path)
{
    LK_FP_GUARD();
    const lk_format *format;
    lk_arena *arena;
    void *fields;
    LK_TRY(writer_find(name, path, &format));
    LK_CHECK(lk_dataset_info_of(ds)->n_fields > 0, LK_ENOTSUP,
             "%s: the data is empty: %lld samples without fields, there is nothing to write", path,
             (long long)lk_dataset_info_of(ds)->count);
    LK_TRY(lk_arena_new(&arena));
    lk_status st = LK_OK;
    LK_TRY_TO(done, writing_parse(format, options, path, arena, &fields));
    LK_TRY_TO(done, format->write(ds, split, fields, path));
done:
    lk_arena_free(arena);
    return st;
}

lk_status lk_format_written(const char *name, const char *options, const char *path,
                            lk_arena *arena, const char **out)
{
    const lk_format *format;
    void *fields;
    LK_TRY(writer_find(name, path, &format));
    LK_TRY(writing_parse(format, options, path, arena, &fields));
    if (format->written)
        LK_TRY(format->written(fields, path, arena, out));
    else
        LK_TRY(lk_arena_text(arena, path, strlen(path), out));
    return LK_OK;
}

/* ---- what formats share ---- */

lk_status lk__labels_check_range(const lk__source *s, const int64_t *label, lk_range which,
                                 int64_t each, int64_t classes, int64_t *most)
{
    int64_t limit = classes > 0 ? classes : LK_MAX_CLASSES;
    for (int64_t i = 0; i < which.n; i++) {
        LK_CHECK(label[i] >= 0 && label[i] < limit, LK_EIO,
                 "%s: sample %lld has the label %lld, but labels are from 0 to %lld",
                 lk__source_name(s), (long long)((which.first + i) / each), (long long)label[i],
                 (long long)limit - 1);
        *most = label[i] > *most ? label[i] : *most;
    }
    return LK_OK;
}

lk_status lk__labels_check(const lk__source *s, const int64_t *label, int64_t n, int64_t samples,
                           int64_t *classes)
{
    int64_t most = -1;
    if (n > 0)
        LK_TRY(lk__labels_check_range(s, label, (lk_range){0, n}, n / samples, *classes, &most));
    if (*classes == 0)
        *classes = most + 1;
    return LK_OK;
}

lk_status lk__shape_given(const lk_option_ints *given, lk_shape found, const char *name,
                          lk_shape *out)
{
    *out = found;
    if (given->n == 0)
        return LK_OK;
    LK_CHECK(given->n < LK_MAX_NDIM, LK_EINVAL, "%s: a shape of %d axes, at most %d are possible",
             name, given->n, LK_MAX_NDIM - 1);
    lk_shape shape = {.ndim = given->n};
    memcpy(shape.dim, given->item, (size_t)given->n * sizeof shape.dim[0]);
    int64_t want, have;
    LK_TRY(lk_shape_count(shape, &want));
    LK_TRY(lk_shape_count(found, &have));
    LK_CHECK(want == have, LK_ESHAPE, "%s: samples of %s cannot take the shape %s", name,
             lk_shape_text(found).s, lk_shape_text(shape).s);
    *out = shape;
    return LK_OK;
}
