/* Datasets in memory: one tensor for each field, its first axis the samples.
 * lk_dataset_from_tensors().
 */
#include "data/dataset.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

struct columns {
    int n;
    lk_tensor *tensor[LK_MAX_FIELDS]; /* contiguous */
    int64_t bytes[LK_MAX_FIELDS];     /* of a sample */
};

static lk_status columns_row(void *context, int64_t index, void *const *row)
{
    const struct columns *c = context;
    for (int f = 0; f < c->n; f++)
        if (row[f])
            memcpy(row[f], (const char *)lk_tensor_data(c->tensor[f]) + index * c->bytes[f],
                   (size_t)c->bytes[f]);
    return LK_OK;
}

static void columns_free(void *context)
{
    struct columns *c = context;
    for (int f = 0; f < c->n; f++)
        lk_tensor_free(c->tensor[f]);
    lk_free(c);
}

/* Every label is a class. */
static lk_status check_labels(const lk_dataset_info *info, const struct columns *c, int y)
{
    const int64_t *label = lk_tensor_data(c->tensor[y]);
    int64_t n = lk_tensor_count(c->tensor[y]);
    for (int64_t i = 0; i < n; i++)
        LK_CHECK(label[i] >= 0 && label[i] < info->classes, LK_EINVAL,
                 "dataset %s: sample %lld has the label %lld, but %lld classes are numbered from 0",
                 info->name, (long long)(i / (n / info->count)), (long long)label[i],
                 (long long)info->classes);
    return LK_OK;
}

/* Complete what `given` says with the shapes and dtypes of the tensors. */
static lk_status describe(const lk_dataset_info *given, lk_tensor *const *tensor,
                          lk_dataset_info *info)
{
    *info = *given;
    info->in_memory = true;
    LK_CHECK(given->n_fields >= 1 && given->n_fields <= LK_MAX_FIELDS, LK_EINVAL,
             "dataset %s: %d fields, there must be 1 to %d", given->name, given->n_fields,
             LK_MAX_FIELDS);
    for (int f = 0; f < given->n_fields; f++) {
        lk_shape shape = lk_tensor_shape(tensor[f]);
        LK_CHECK(shape.ndim >= 1, LK_ESHAPE, "dataset %s: field \"%s\" has no axis of samples",
                 given->name, given->field[f].name);
        info->count = f == 0 ? shape.dim[0] : info->count;
        LK_CHECK(shape.dim[0] == info->count, LK_ESHAPE,
                 "dataset %s: field \"%s\" has %lld samples, field \"%s\" %lld", given->name,
                 given->field[f].name, (long long)shape.dim[0], given->field[0].name,
                 (long long)info->count);
        lk_shape *row = &info->field[f].shape;
        *row = (lk_shape){.ndim = shape.ndim - 1};
        memcpy(row->dim, shape.dim + 1, (size_t)row->ndim * sizeof row->dim[0]);
        info->field[f].dtype = lk_tensor_dtype(tensor[f]);
    }
    return LK_OK;
}

lk_status lk_dataset_from_tensors(const lk_dataset_info *given, lk_tensor *const *tensor,
                                  lk_dataset **out)
{
    *out = NULL;
    lk_dataset_info info;
    LK_TRY(describe(given, tensor, &info));
    struct columns *c;
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    lk_status st = LK_OK;
    for (; c->n < info.n_fields; c->n++) {
        LK_TRY_TO(fail, lk_tensor_contiguous(tensor[c->n], &c->tensor[c->n]));
        c->bytes[c->n] = lk__field_bytes(&info.field[c->n]);
    }
    LK_TRY_TO(fail, lk_dataset_new(&info, columns_row, columns_free, c, out));
    for (int f = 0; f < c->n; f++)
        lk__dataset_set_base(*out, f, lk_tensor_data(c->tensor[f]));
    if (info.classes > 0 && info.count > 0)
        LK_TRY_TO(fail, check_labels(&info, c, lk_dataset_find(*out, "y")));
    return LK_OK;
fail:
    if (*out)
        lk_dataset_free(*out); /* and `c` with it */
    else
        columns_free(c);
    *out = NULL;
    return st;
}

lk_status lk_dataset_from_arrays(int64_t count, lk_shape sample, const float *x, const int64_t *y,
                                 int64_t classes, lk_dataset **out)
{
    *out = NULL;
    lk_status st = LK_OK;
    lk_tensor *tensor[2] = {NULL, NULL};
    lk_dataset_info info = {.name = "arrays",
                            .classes = classes,
                            .n_fields = 2,
                            .field = {{.name = "x"}, {.name = "y"}}};
    LK_CHECK(classes >= 1, LK_EINVAL, "arrays have %lld classes, they need one at least",
             (long long)classes);
    LK_CHECK(sample.ndim >= 0 && sample.ndim < LK_MAX_NDIM, LK_ESHAPE,
             "a sample of arrays has %d axes, not 0 to %d", sample.ndim, LK_MAX_NDIM - 1);
    lk_shape all = {.ndim = sample.ndim + 1, .dim = {count}};
    memcpy(all.dim + 1, sample.dim, (size_t)sample.ndim * sizeof sample.dim[0]);
    LK_TRY_TO(done, lk_tensor_wrap_const(LK_F32, all, x, NULL, NULL, &tensor[0]));
    LK_TRY_TO(done, lk_tensor_wrap_const(LK_I64, LK_SHAPE(count), y, NULL, NULL, &tensor[1]));
    LK_TRY_TO(done, lk_dataset_from_tensors(&info, tensor, out));
done:
    lk_tensor_free(tensor[0]);
    lk_tensor_free(tensor[1]);
    return st;
}

lk_status lk__dataset_load(const lk_dataset *ds, lk_dataset **out)
{
    *out = NULL;
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    lk_tensor *tensor[LK_MAX_FIELDS] = {NULL};
    char *data[LK_MAX_FIELDS];
    lk_status st = LK_OK;
    for (int f = 0; f < info->n_fields; f++) {
        const lk_field *field = &info->field[f];
        lk_shape shape = {.ndim = field->shape.ndim + 1, .dim = {info->count}};
        memcpy(shape.dim + 1, field->shape.dim, (size_t)field->shape.ndim * sizeof shape.dim[0]);
        LK_TRY_TO(done, lk_tensor_new(field->dtype, shape, &tensor[f]));
        void *start;
        LK_TRY_TO(done, lk_tensor_writable_data(tensor[f], &start));
        data[f] = start;
    }
    for (int64_t i = 0; i < info->count; i++) {
        void *row[LK_MAX_FIELDS] = {NULL};
        for (int f = 0; f < info->n_fields; f++)
            row[f] = data[f] + i * lk__field_bytes(&info->field[f]);
        LK_TRY_TO(done, lk__dataset_row(ds, i, row));
    }
    LK_TRY_TO(done, lk_dataset_from_tensors(info, tensor, out));
done:
    for (int f = 0; f < info->n_fields; f++)
        lk_tensor_free(tensor[f]);
    return st;
}
