/* The affine map by which a loader normalises, from options or measured over a set when the loader is
 * made.
 */
#include "data/content.h"
#include "data/dataset.h"
#include "data/loader/loader.h"

#include <lockstep/extra/alloc.h>

#include <math.h>
#include <string.h>

/* Numbers of a map that is used: so many values are converted at a time. */
enum { REPEATED = 512 };

void lk__affine_free(lk__affine *f)
{
    lk_free(f->a);
    lk_free(f->b);
    *f = (lk__affine){.channels = 0};
}

static lk_status affine_new(int64_t channels, lk_dtype dtype, lk__affine *out)
{
    *out = (lk__affine){.channels = channels};
    LK_TRY(lk_alloc(&out->a, channels, lk_dtype_size(dtype)));
    return LK_TRACE(lk_alloc(&out->b, channels, lk_dtype_size(dtype)));
}

lk_status lk__affine_copy(const lk__affine *from, lk_dtype dtype, lk__affine *out)
{
    LK_TRY(affine_new(from->channels, dtype, out));
    lk__convert(dtype, from->a, dtype, out->a, from->channels, NULL);
    lk__convert(dtype, from->b, dtype, out->b, from->channels, NULL);
    out->identity = from->identity;
    return LK_OK;
}

lk_status lk__affine_part(const lk__affine *f, lk_dtype dtype, const lk_box *box, lk__affine *out)
{
    int last = box->ndim - 1;
    int64_t first = last < 0 ? 0 : box->first[last], n = last < 0 ? 1 : box->n[last];
    int64_t times = n > 0 && n < REPEATED ? REPEATED / n : 1;
    size_t bytes = (size_t)n * lk_dtype_size(dtype);
    LK_TRY(affine_new(times * n, dtype, out));
    out->identity = f->identity;
    for (int64_t i = 0; i < times; i++) {
        memcpy((char *)out->a + i * (int64_t)bytes,
               (const char *)f->a + first * (int64_t)lk_dtype_size(dtype), bytes);
        memcpy((char *)out->b + i * (int64_t)bytes,
               (const char *)f->b + first * (int64_t)lk_dtype_size(dtype), bytes);
    }
    return LK_OK;
}

/* Means and deviations of the channels, while they are measured. */
struct measure {
    lk__content content;
    lk_dtype dtype; /* of the values */
    int64_t channels;
    const double *mean; /* subtracted before squares are added; NULL: values are */
    double *sample;     /* sums of one sample */
    double *value;      /* some of its values in double */
};

/* Add the values of some positions, or their squared distances, each to its channel. */
static void add_values(struct measure *m, int64_t first, int64_t n, const char *values)
{
    lk__convert(m->dtype, values, LK_F64, m->value, n, NULL);
    int64_t c = first % m->channels;
    for (int64_t i = 0; i < n; c = 0)
        for (; c < m->channels && i < n; i++, c++) {
            double d = m->mean ? m->value[i] - m->mean[c] : m->value[i];
            m->sample[c] += m->mean ? d * d : d;
        }
}

static void add_part(void *arg, int f, int64_t first, int64_t n, const void *values)
{
    struct measure *m = arg;
    (void)f; /* only x is asked for */
    for (int64_t at = 0; at < n; at += LK_CONTENT_ELEMENTS) {
        int64_t some = n - at < LK_CONTENT_ELEMENTS ? n - at : LK_CONTENT_ELEMENTS;
        add_values(m, first + at, some,
                   (const char *)values + at * (int64_t)lk_dtype_size(m->dtype));
    }
}

/* to[c] = the sum over samples of the sums over a sample of v, or of (v - mean[c])^2. */
static lk_status sum_channels(struct measure *m, const double *mean, double *to)
{
    int64_t count = lk_dataset_info_of(m->content.ds)->count;
    m->mean = mean;
    for (int64_t c = 0; c < m->channels; c++)
        to[c] = 0;
    for (int64_t s = 0; s < count; s++) {
        for (int64_t c = 0; c < m->channels; c++)
            m->sample[c] = 0;
        LK_TRY(lk__content_sample(&m->content, s, add_part, m));
        for (int64_t c = 0; c < m->channels; c++)
            to[c] += m->sample[c];
    }
    return LK_OK;
}

static lk_status measure_run(struct measure *m, int x, double *mean, double *dev)
{
    const lk_dataset_info *info = lk_dataset_info_of(m->content.ds);
    LK_TRY(lk__content_open(m->content.ds, x, &m->content));
    LK_TRY(lk_alloc(&m->sample, m->channels, sizeof *m->sample));
    LK_TRY(lk_alloc(&m->value, LK_CONTENT_ELEMENTS, sizeof *m->value));
    int64_t count = lk__field_bytes(&info->field[x]) / (int64_t)lk_dtype_size(m->dtype);
    int64_t positions = count / m->channels;
    double n = (double)info->count * (double)positions;
    LK_TRY(sum_channels(m, NULL, mean));
    for (int64_t c = 0; c < m->channels; c++)
        mean[c] /= n;
    LK_TRY(sum_channels(m, mean, dev));
    for (int64_t c = 0; c < m->channels; c++) {
        dev[c] = sqrt(dev[c] / n);
        if (dev[c] == 0)
            dev[c] = 1;
    }
    return LK_OK;
}

/* Measure both in the unit `unit` times the values of the set. */
static lk_status measure(const lk_dataset *ds, int x, int64_t channels, double unit, double *mean,
                         double *dev)
{
    struct measure m = {.content = {.ds = ds},
                        .dtype = lk_dataset_info_of(ds)->field[x].dtype,
                        .channels = channels};
    lk_status st = measure_run(&m, x, mean, dev);
    lk__content_close(&m.content);
    lk_free(m.sample);
    lk_free(m.value);
    LK_TRY(st);
    for (int64_t c = 0; c < channels; c++) {
        mean[c] *= unit;
        dev[c] *= unit;
    }
    return LK_OK;
}

/* The options' numbers for each channel; false if none are given. */
static lk_status given(const char *name, const char *what, const lk_option_reals *list,
                       int64_t channels, double fallback, double *out)
{
    LK_CHECK(list->n <= 1 || list->n == channels, LK_EINVAL,
             "dataset %s: %d numbers of %s for %lld channels", name, list->n, what,
             (long long)channels);
    for (int64_t c = 0; c < channels; c++)
        out[c] = list->n == 0 ? fallback : list->item[list->n == 1 ? 0 : c];
    return LK_OK;
}

/* Means and deviations as `o` asks for. */
static lk_status statistics(const lk_dataset *ds, int x, const lk_loader_options *o, double unit,
                            int64_t channels, double *mean, double *dev)
{
    const char *name = lk__dataset_title(ds);
    bool standard = o->normalise == LK_NORMALISE_STANDARD;
    LK_CHECK(standard || (o->mean.n == 0 && o->std.n == 0), LK_EINVAL,
             "dataset %s: mean and std need normalise: standard", name);
    if (standard && o->mean.n == 0 && o->std.n == 0) {
        return LK_TRACE(measure(ds, x, channels, unit, mean, dev));
    }
    LK_TRY(given(name, "mean", &o->mean, channels, 0, mean));
    LK_TRY(given(name, "std", &o->std, channels, 1, dev));
    for (int64_t c = 0; c < channels; c++)
        LK_CHECK(dev[c] > 0, LK_EINVAL, "dataset %s: a std of %g", name, dev[c]);
    return LK_OK;
}

static lk_status fill(const lk_dataset *ds, int x, const lk_loader_options *o, double *mean,
                      double *dev, lk__affine *out)
{
    bool bytes = lk_dataset_info_of(ds)->field[x].dtype == LK_U8;
    bool units = o->normalise == LK_NORMALISE_UNIT || (bytes && o->normalise != LK_NORMALISE_NONE);
    double unit = units ? 1.0 / 255 : 1;
    LK_TRY(statistics(ds, x, o, unit, out->channels, mean, dev));
    out->identity = true;
    for (int64_t c = 0; c < out->channels; c++) {
        double a = o->scale * unit / dev[c], b = o->shift - o->scale * mean[c] / dev[c];
        out->identity = out->identity && a == 1 && b == 0;
        if (o->dtype == LK_F32) {
            ((float *)out->a)[c] = (float)a;
            ((float *)out->b)[c] = (float)b;
        } else {
            ((double *)out->a)[c] = a;
            ((double *)out->b)[c] = b;
        }
    }
    return LK_OK;
}

lk_status lk__affine_make(const lk_dataset *ds, int x, const lk_loader_options *options,
                          lk__affine *out)
{
    const lk_shape *shape = &lk_dataset_info_of(ds)->field[x].shape;
    int64_t channels = shape->ndim == 0 ? 1 : shape->dim[shape->ndim - 1];
    channels = channels > 0 ? channels : 1;
    LK_TRY(affine_new(channels, options->dtype, out));
    double *mean;
    LK_TRY(lk_alloc(&mean, 2 * channels, sizeof *mean));
    lk_status st = fill(ds, x, options, mean, mean + channels, out);
    lk_free(mean);
    return LK_TRACE(st);
}
