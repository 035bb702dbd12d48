/* Reading CIFAR's binary files, in which planes become channels: for formats/cifar10.c and cifar100.c. */
#include "data/arrays/cifar.h"

#include "data/dataset.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

enum { SIDE = 32, PIXELS = SIDE * SIDE };

struct cifar {
    lk__source *source[LK_CIFAR_FILES];
    int64_t end[LK_CIFAR_FILES]; /* samples up to and with this file */
    int n;
    int64_t record, label_bytes;
    unsigned char *label; /* of all samples */
};

static void cifar_free(void *context)
{
    struct cifar *c = context;
    for (int i = 0; i < c->n; i++)
        lk__source_free(c->source[i]);
    lk_free(c->label);
    lk_free(c);
}

/* The planes of an image are read, little as they are, and what the box has of them becomes pixels. */
static lk_status cifar_box(void *context, int64_t index, int field, const lk_box *box, void *out)
{
    const struct cifar *c = context;
    if (field == 1) {
        *(int64_t *)out = c->label[index];
        return LK_OK;
    }
    int file = 0;
    while (index >= c->end[file])
        file++;
    int64_t at = index - (file ? c->end[file - 1] : 0);
    unsigned char plane[3 * PIXELS], *x = out;
    LK_TRY(lk__source_read(c->source[file], at * c->record + c->label_bytes, plane, sizeof plane,
                           "an image"));
    int64_t channels = box->n[2], columns = box->n[1];
    const unsigned char *first = plane + box->first[2] * PIXELS;
    for (int64_t r = box->first[0]; r < box->first[0] + box->n[0]; r++, x += columns * channels)
        for (int64_t k = 0; k < channels; k++) {
            const unsigned char *from = first + k * PIXELS + r * SIDE + box->first[1];
            for (int64_t i = 0; i < columns; i++)
                x[i * channels + k] = from[i];
        }
    return LK_OK;
}

/* The labels of one file, checked. */
static lk_status read_labels(const struct cifar *c, const lk__cifar_kind *kind, int file)
{
    int64_t first = file ? c->end[file - 1] : 0;
    for (int64_t i = first; i < c->end[file]; i++) {
        int64_t at = (i - first) * c->record + kind->label;
        LK_TRY(lk__source_read(c->source[file], at, &c->label[i], 1, "a label"));
        if (c->label[i] >= kind->classes)
            return LK_DAMAGED(c->source[file], at, "the label %d, but %s has %lld classes",
                              c->label[i], kind->name, (long long)kind->classes);
    }
    return LK_OK;
}

static lk_status fill(struct cifar *c, const lk__cifar_kind *kind, int64_t *count)
{
    *count = 0;
    for (int i = 0; i < c->n; i++) {
        int64_t size = lk__source_size(c->source[i]);
        if (size == 0 || size % c->record != 0)
            return LK_DAMAGED(c->source[i], size - size % c->record,
                              "%lld bytes are no whole number of records of %lld", (long long)size,
                              (long long)c->record);
        *count += size / c->record; /* files are much smaller than 2^63 / 8 bytes */
        c->end[i] = *count;
    }
    LK_TRY(lk_alloc(&c->label, *count, 1));
    for (int i = 0; i < c->n; i++)
        LK_TRY(read_labels(c, kind, i));
    return LK_OK;
}

lk_status lk__cifar_dataset(const lk__cifar_kind *kind, lk__source *const *source, int n,
                            lk_dataset **out)
{
    *out = NULL;
    struct cifar *c;
    lk_status st = lk_alloc_zero(&c, 1, sizeof *c);
    if (st != LK_OK) {
        for (int i = 0; i < n; i++)
            lk__source_free(source[i]);
        return st;
    }
    memcpy(c->source, source, (size_t)n * sizeof *source);
    c->n = n;
    c->label_bytes = kind->label_bytes;
    c->record = kind->label_bytes + INT64_C(3) * PIXELS;
    lk_dataset_info info = {
        .name = n > 0 ? lk__source_name(source[0]) : kind->name,
        .classes = kind->classes,
        .n_fields = 2,
        .field = {lk__field("x", LK_U8, LK_SHAPE(SIDE, SIDE, 3)),
                  lk__field("y", LK_I64, LK_SCALAR)},
    };
    LK_TRY_TO(fail, fill(c, kind, &info.count));
    LK_TRY_TO(fail, lk_dataset_new_boxes(&info, NULL, cifar_box, cifar_free, c, out));
    lk__dataset_set_files(*out, c->source, c->n);
    return LK_OK;
fail:
    cifar_free(c);
    return st;
}

lk_status lk__cifar_open(const lk__cifar_kind *kind, const char *path, lk_split split,
                         lk_dataset **out)
{
    *out = NULL;
    const char *const *file = split == LK_TEST ? kind->test : kind->train;
    bool folder = lk__path_is_folder(path);
    if (split == LK_VALIDATION || (split == LK_TEST && !folder))
        return LK_OK;
    lk__source *source[LK_CIFAR_FILES];
    int n = 0;
    char full[LK_PATH_SIZE];
    lk_status st = LK_OK;
    if (!folder) {
        LK_TRY(lk__source_open(path, &source[n++]));
    } else {
        for (; file[n]; n++) {
            LK_TRY_TO(fail, lk__path_join(path, file[n], full, sizeof full));
            if (n == 0 && !lk__path_exists(full))
                return LK_OK;
            LK_TRY_TO(fail, lk__source_open(full, &source[n]));
        }
    }
    return LK_TRACE(lk__cifar_dataset(kind, source, n, out));
fail:
    while (n > 0)
        lk__source_free(source[--n]);
    return st;
}
