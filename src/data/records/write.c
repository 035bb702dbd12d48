/* Writing a set as records, to one file or many: see records.h.  Threads of this call take one file after
 * the other; each has memory for a sample and its record.
 */
#include "base/failure.h"
#include "base/fpenv.h"
#include "base/processors.h"
#include "base/storage/storage.h"
#include "base/thread.h"
#include "data/dataset.h"
#include "data/records/example.h"
#include "data/records/records.h"
#include "data/records/tfrecord.h"

#include <lockstep/extra/alloc.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- one record after the other ---- */

enum { MOST = LK_MAX_FIELDS + 4 }; /* features of a record */

/* A record of one sample after the other. */
struct writing {
    void *row[LK_MAX_FIELDS], *block;
    char description[LK_RECORD_TEXT];
    lk__feature_out feature[MOST]; /* of these rows, in the order of names */
    int n;
    void *record;
    int64_t room;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lk__feature_out *)a)->name, ((const lk__feature_out *)b)->name);
}

/* Elements of other dtypes lie as bytes, and the note says what they are. */
static lk__feature_out feature_of(const char *name, const lk_field *field, const void *row)
{
    int64_t bytes = lk__field_bytes(field), n = bytes / (int64_t)lk_dtype_size(field->dtype);
    if (field->dtype == LK_F32)
        return (lk__feature_out){name, LK_FEATURE_FLOATS, row, n};
    if (field->dtype == LK_I64)
        return (lk__feature_out){name, LK_FEATURE_INTS, row, n};
    return (lk__feature_out){name, LK_FEATURE_BYTES, row, bytes};
}

static lk_status writing_start(const lk_dataset *ds, const char *path, struct writing *w)
{
    static const char *const own[] = {"image_raw", "label", "height",
                                      "width",     "depth", LK_RECORD_DESCRIPTION_NAME};
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    int x = lk_dataset_find(ds, "x"), y = lk_dataset_find(ds, "y");
    LK_CHECK(x >= 0, LK_ENOTSUP, "%s: records hold a field x, which %s has not", path, info->name);
    LK_TRY(lk__record_description(info, w->description));
    LK_TRY(lk__dataset_rows_new(ds, w->row, &w->block));
    for (int f = 0; f < info->n_fields; f++) {
        const lk_field *field = &info->field[f];
        const char *name = f == x ? "image_raw" : f == y ? "label" : field->name;
        for (size_t i = 0; f != x && f != y && i < sizeof own / sizeof own[0]; i++)
            LK_CHECK(strcmp(name, own[i]) != 0, LK_ENOTSUP,
                     "%s: the field \"%s\" of %s has the name of another feature", path, name,
                     info->name);
        w->feature[w->n++] = feature_of(name, field, w->row[f]);
    }
    const lk_shape *shape = &info->field[x].shape;
    static const char *const size[] = {"height", "width", "depth"};
    for (int i = 0; shape->ndim == 3 && i < 3; i++)
        w->feature[w->n++] = (lk__feature_out){size[i], LK_FEATURE_INTS, &shape->dim[i], 1};
    w->feature[w->n++] = (lk__feature_out){LK_RECORD_DESCRIPTION_NAME, LK_FEATURE_BYTES,
                                           w->description, (int64_t)strlen(w->description)};
    qsort(w->feature, (size_t)w->n, sizeof w->feature[0], by_name);
    return LK_OK;
}

static void writing_end(struct writing *w)
{
    lk_free(w->block);
    lk_free(w->record);
}

static lk_status write_sample(lk__sink *s, const lk_dataset *ds, int64_t i, struct writing *w)
{
    LK_TRY(lk__dataset_row(ds, i, w->row));
    int64_t size = lk__example_size(w->feature, w->n);
    LK_CHECK(size <= LK_TFRECORD_MAX, LK_ENOTSUP, "a record of %lld bytes", (long long)size);
    if (size > w->room) {
        lk_free(w->record);
        w->record = NULL;
        w->room = 0;
        LK_TRY(lk_alloc(&w->record, size, 1));
        w->room = size;
    }
    lk__example_write(w->feature, w->n, w->record);
    return LK_TRACE(lk__tfrecord_write(s, w->record, size));
}

/* ---- names ---- */

static const char suffix[] = ".tfrecord", packed[] = ".gz";

/* The name of the file with a number, or of all of them where that is "*". */
static lk_status name_with(const char *path, const lk__records_writing *how, const char *number,
                           char out[LK_PATH_SIZE])
{
    int length = (int)strlen(path), n;
    bool gzip = how->gzip || lk__path_ends(path, packed);
    if (lk__path_ends(path, packed))
        length -= (int)sizeof packed - 1;
    if (how->files > 1 && length >= (int)sizeof suffix - 1 &&
        memcmp(path + length - (sizeof suffix - 1), suffix, sizeof suffix - 1) == 0)
        length -= (int)sizeof suffix - 1;
    const char *behind = gzip ? packed : "";
    if (how->files == 1)
        n = snprintf(out, LK_PATH_SIZE, "%.*s%s", length, path, behind);
    else
        n = snprintf(out, LK_PATH_SIZE, "%.*s-%s-of-%05lld%s%s", length, path, number,
                     (long long)how->files, suffix, behind);
    LK_CHECK(n >= 0 && n < LK_PATH_SIZE, LK_EINVAL, "the path %s is too long", path);
    return LK_OK;
}

/* The name of file `k`. */
static lk_status name_of(const char *path, const lk__records_writing *how, int64_t k,
                         char out[LK_PATH_SIZE])
{
    char number[24];
    snprintf(number, sizeof number, "%05lld", (long long)k);
    return LK_TRACE(name_with(path, how, number, out));
}

lk_status lk__records_written(const lk__records_writing *how, const char *path, lk_arena *arena,
                              const char **out)
{
    char name[LK_PATH_SIZE];
    LK_TRY(name_with(path, how, "*", name));
    return LK_TRACE(lk_arena_text(arena, name, strlen(name), out));
}

/* ---- files, by several threads ---- */

struct job {
    const lk_dataset *ds;
    lk__records_writing how;
    const char *path;
    lk__sink **sink;      /* of each file */
    _Atomic int64_t next; /* file to be written */
    _Atomic bool failed;  /* a writer has */
    pthread_mutex_t lock;
    lk__failure failure; /* of the first file that has one */
    int64_t failed_file;
};

static lk_status write_file(struct job *j, int64_t k, struct writing *w)
{
    char path[LK_PATH_SIZE];
    lk_range part = lk_range_split(lk_dataset_info_of(j->ds)->count, k, j->how.files);
    LK_TRY(name_of(j->path, &j->how, k, path));
    LK_TRY(j->how.gzip ? lk__sink_open_gzip(path, &j->sink[k]) : lk__sink_open(path, &j->sink[k]));
    for (int64_t i = part.first; i < part.first + part.n && !atomic_load(&j->failed); i++)
        LK_TRY(write_sample(j->sink[k], j->ds, i, w));
    return LK_TRACE(lk__sink_seal(j->sink[k]));
}

/* Of several failures the one of the first file counts, as it would without threads. */
static void failure_record(struct job *j, int64_t k)
{
    pthread_mutex_lock(&j->lock);
    if (!atomic_exchange(&j->failed, true) || k < j->failed_file) {
        lk__failure_get(&j->failure);
        j->failed_file = k;
    }
    pthread_mutex_unlock(&j->lock);
    lk_error_clear();
}

static void *write_files(void *context)
{
    LK_FP_GUARD();
    struct job *j = context;
    struct writing w = {.n = 0};
    lk_status st = writing_start(j->ds, j->path, &w);
    if (st != LK_OK)
        failure_record(j, -1);
    for (int64_t k; !atomic_load(&j->failed);) {
        k = atomic_fetch_add(&j->next, 1);
        if (k >= j->how.files)
            break;
        if (write_file(j, k, &w) != LK_OK)
            failure_record(j, k);
    }
    writing_end(&w);
    return NULL;
}

/* Let `n` threads write, this one among them. */
static void threads_run(struct job *j, int n)
{
    enum { MOST_THREADS = 64 };
    pthread_t thread[MOST_THREADS];
    int started = 0;
    n = n < MOST_THREADS ? n : MOST_THREADS;
    while (started < n - 1 && lk__thread_start(&thread[started], NULL, write_files, j) == 0)
        started++;
    write_files(j);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}

/* Give all files their names, or remove them. */
static lk_status files_end(struct job *j, lk_status st)
{
    int64_t named = 0;
    for (int64_t k = 0; k < j->how.files; k++) {
        lk__sink *s = j->sink[k];
        if (st == LK_OK)
            st = lk__sink_close(s);
        else
            lk__sink_abandon(s);
        named += st == LK_OK;
    }
    char path[LK_PATH_SIZE];
    for (int64_t k = 0; st != LK_OK && k < named; k++)
        if (name_of(j->path, &j->how, k, path) == LK_OK)
            lk__storage_discard(path);
    return st;
}

static int processors(void)
{
    lk__processors mine;
    return lk__processors_allowed(&mine) ? lk__processors_count(&mine) : 1;
}

lk_status lk__records_write(const lk_dataset *ds, const lk__records_writing *how, const char *path)
{
    struct job j = {.ds = ds, .how = *how, .path = path};
    int threads = processors();
    j.how.gzip = how->gzip || lk__path_ends(path, packed);
    LK_CHECK(how->files >= 1, LK_EINVAL, "%s: %lld files", path, (long long)how->files);
    LK_TRY(lk_alloc_zero(&j.sink, how->files, sizeof *j.sink));
    pthread_mutex_init(&j.lock, NULL);
    threads_run(&j, how->files < threads ? (int)how->files : threads);
    pthread_mutex_destroy(&j.lock);
    lk_status st = LK_OK;
    if (atomic_load(&j.failed)) {
        lk__failure_set(&j.failure);
        st = j.failure.st;
    }
    st = files_end(&j, st);
    lk_free(j.sink);
    return LK_TRACE(st);
}
