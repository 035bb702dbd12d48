/* Fields of samples from features of records: see fields.h.  All of it is called when a set is
 * opened, by one thread, but lk__record_fields_check(), on any thread that reads.
 */
#include "data/records/fields.h"

#include "base/text/number.h"
#include "data/dataset.h"
#include "data/format.h"
#include "data/records/tfrecord.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>

#include <stdio.h>
#include <string.h>

enum { X, Y, FURTHER }; /* numbers of fields */

/* ---- what options say ---- */

/* NAME:DTYPE:NxN of a further field. */
static lk_status read_further(const char *text, char name[LK_OPTION_NAME_SIZE],
                              lk__record_field *out)
{
    char part[LK_OPTION_NAME_SIZE];
    size_t n = strcspn(text, ":");
    snprintf(name, LK_OPTION_NAME_SIZE, "%.*s", (int)n, text);
    LK_CHECK(n > 0 && strcmp(name, "x") != 0 && strcmp(name, "y") != 0, LK_EINVAL,
             "fields: \"%s\": a further field has a name of its own, not x or y", text);
    out->in.dtype = LK_N_DTYPES; /* as it is found */
    out->in.shape.ndim = -1;
    if (!text[n])
        return LK_OK;
    text += n + 1;
    n = strcspn(text, ":");
    snprintf(part, sizeof part, "%.*s", (int)n, text);
    LK_TRY(lk_dtype_find(part, &out->in.dtype));
    if (!text[n])
        return LK_OK;
    for (out->in.shape.ndim = 0, text += n + 1;; text++) {
        int64_t dim;
        n = strcspn(text, "x");
        snprintf(part, sizeof part, "%.*s", (int)n, text);
        LK_CHECK(!lk__number_read_int(part, &dim) && dim > 0 &&
                     out->in.shape.ndim < LK_MAX_NDIM - 1,
                 LK_EINVAL, "fields: \"%s\" is no shape, which is such as 28x28", text);
        out->in.shape.dim[out->in.shape.ndim++] = dim;
        text += n;
        if (!*text)
            return LK_OK;
    }
}

/* What the choice of an option says. */
static lk_dtype given_dtype(int choice)
{
    return choice == 0 ? LK_N_DTYPES : (lk_dtype)(choice - 1);
}

/* Copy a name behind the others. */
static const char *keep(char **at, const char *text)
{
    char *to = *at;
    size_t n = strlen(text) + 1;
    memcpy(to, text, n);
    *at += n;
    return to;
}

lk_status lk__record_fields_start(const lk__record_options *o, lk__record_fields *out)
{
    const char *given[LK_RECORD_FEATURES] = {[X] = o->image,
                                             [Y] = o->label,
                                             [LK_RECORD_HEIGHT] = o->height,
                                             [LK_RECORD_WIDTH] = o->width,
                                             [LK_RECORD_DEPTH] = o->depth,
                                             [LK_RECORD_DESCRIPTION] = LK_RECORD_DESCRIPTION_NAME};
    char further[LK_MAX_FIELDS][LK_OPTION_NAME_SIZE];
    *out = (lk__record_fields){.classes = o->classes, .n = FURTHER + o->fields.n};
    LK_CHECK(out->n <= LK_MAX_FIELDS, LK_EINVAL, "fields: %d further fields, at most %d",
             o->fields.n, LK_MAX_FIELDS - FURTHER);
    out->field[X].in.dtype = given_dtype(o->dtype);
    out->field[Y].in.dtype = given_dtype(o->label_dtype);
    for (int i = FURTHER; i < out->n; i++) {
        LK_TRY(read_further(o->fields.item[i - FURTHER], further[i], &out->field[i]));
        given[i] = further[i];
    }
    size_t bytes = LK_RECORD_TEXT;
    for (int i = 0; i < LK_RECORD_FEATURES; i++)
        bytes += given[i] ? strlen(given[i]) + 1 : 0;
    LK_TRY(lk_alloc(&out->texts, (int64_t)bytes, 1));
    char *at = out->texts + LK_RECORD_TEXT; /* where the note will be */
    for (int i = 0; i < LK_RECORD_FEATURES; i++)
        out->name[i] = given[i] ? keep(&at, given[i]) : NULL;
    return LK_OK;
}

void lk__record_fields_free(lk__record_fields *f)
{
    lk_free(f->texts);
    f->texts = NULL;
}

/* ---- what the first record says ---- */

/* Where a record is, for messages. */
struct place {
    const lk__example_window *w;
    int64_t offset;
};

#define WRONG(place, fmt, ...)                                                            \
    LK_RECORD_WRONG(LK_EIO, (place)->w->source, (place)->w->record, (place)->offset, fmt, \
                    __VA_ARGS__)

static const char *kind_text(lk__feature_kind kind)
{
    static const char *const text[] = {"nothing", "bytes", "floats", "integers"};
    return text[kind];
}

/* The text of a feature that is short: in the window, or from the source. */
static lk_status short_text(const lk__example_window *w, const lk__feature *f, char *out)
{
    if (f->at >= w->at && f->end <= w->at + w->n)
        memcpy(out, w->bytes + (f->at - w->at), (size_t)(f->end - f->at));
    else
        LK_TRY(lk__source_read(w->source, f->at, out, f->end - f->at, "a note"));
    out[f->end - f->at] = '\0';
    return LK_OK;
}

static lk_status description_take(lk__record_fields *f, const struct place *p,
                                  const lk__feature *description)
{
    if (description->kind != LK_FEATURE_BYTES || description->n >= LK_RECORD_TEXT)
        return LK_OK;
    LK_TRY(short_text(p->w, description, f->texts));
    f->description = f->texts;
    return LK_OK;
}

/* Whether a shape from a file has so many elements. */
static bool counts_to(const lk_shape *shape, int64_t n)
{
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] < 0 || __builtin_mul_overflow(count, shape->dim[i], &count))
            return false;
    return count == n;
}

/* The shape that the features of its size give to the `n` values of x, if they are there. */
static lk_status take_size(lk__record_fields *f, const struct place *p, const lk__feature *feature,
                           int64_t n, lk_shape *out)
{
    for (int i = 0; i < 3; i++) {
        const lk__feature *size = &feature[LK_RECORD_HEIGHT + i];
        if (size->kind != LK_FEATURE_INTS || size->n != 1)
            return LK_OK;
        f->size[i] = size->value[0];
    }
    lk_shape shape = LK_SHAPE(f->size[0], f->size[1], f->size[2]);
    if (!counts_to(&shape, n))
        return WRONG(p, "%lld values for an image of %s", (long long)n, lk_shape_text(shape).s);
    f->sized = true;
    *out = shape;
    return LK_OK;
}

/* How the elements of a list lie: its own dtype, or that which options or the note give its bytes. */
static lk_status take_dtype(const struct place *p, const char *name, const lk__feature *feature,
                            lk_dtype given, lk_dtype noted, lk__record_field *out, int64_t *n)
{
    static const lk_dtype of_kind[] = {
        [LK_FEATURE_BYTES] = LK_U8, [LK_FEATURE_FLOATS] = LK_F32, [LK_FEATURE_INTS] = LK_I64};
    lk_dtype dtype = of_kind[feature->kind];
    out->kind = feature->kind;
    out->n = feature->n;
    if (given == LK_N_DTYPES && feature->kind == LK_FEATURE_BYTES)
        given = noted;
    if (given != LK_N_DTYPES && given != dtype && feature->kind != LK_FEATURE_BYTES)
        return WRONG(p, "feature \"%s\" has %s, not bytes that could be %s", name,
                     kind_text(feature->kind), lk_dtype_name(given));
    out->in.dtype = given == LK_N_DTYPES ? dtype : given;
    *n = feature->n;
    if (feature->kind == LK_FEATURE_BYTES) {
        *n /= (int64_t)lk_dtype_size(out->in.dtype);
        if (*n * (int64_t)lk_dtype_size(out->in.dtype) != feature->n)
            return WRONG(p, "feature \"%s\" has %lld bytes, no whole number of %s", name,
                         (long long)feature->n, lk_dtype_name(out->in.dtype));
    }
    if (feature->kind == LK_FEATURE_INTS && feature->scattered && feature->n > 1)
        return LK_RECORD_WRONG(LK_ENOTSUP, p->w->source, p->w->record, p->offset,
                               "the integers of \"%s\" are not packed in one piece, which is not "
                               "supported",
                               name);
    return LK_OK;
}

/* Field `i`, whose shape is `given`, that of the note, or else `found`. */
static lk_status take_field(lk__record_fields *f, int i, const struct place *p, const char *name,
                            const lk__feature *feature, const lk_option_ints *given,
                            lk_shape *shape)
{
    lk_dtype noted = LK_N_DTYPES;
    lk_shape described = {.ndim = -1};
    int64_t n;
    (void)lk__record_description_field(f->description, name, &noted, &described);
    LK_TRY(take_dtype(p, f->name[i], &feature[i], f->field[i].in.dtype, noted, &f->field[i], &n));
    lk_shape found = i == X || n != 1 ? LK_SHAPE(n) : LK_SCALAR;
    if (i == X && given->n == 0)
        LK_TRY(take_size(f, p, feature, n, &found));
    if (described.ndim >= 0 && counts_to(&described, n))
        found = described;
    LK_TRY(lk__shape_given(given, found, lk__source_name(p->w->source), shape));
    f->field[i].in.shape = *shape;
    return LK_OK;
}

static bool is_whole(lk_dtype dtype)
{
    return dtype == LK_U8 || dtype == LK_I32 || dtype == LK_I64;
}

/* Labels or targets. */
static lk_status describe_y(lk__record_fields *f, const lk__record_options *o,
                            const struct place *p, const lk__feature *feature,
                            lk_dataset_info *info)
{
    lk__record_field *y = &f->field[Y];
    lk_shape shape;
    lk_dtype noted = LK_N_DTYPES;
    bool described = lk__record_description_field(f->description, "y", &noted, &shape);
    y->of = -1;
    if (feature[Y].kind == LK_FEATURE_NONE)
        return LK_OK;
    bool bare = feature[Y].kind == LK_FEATURE_BYTES && o->label_dtype == 0 && !described;
    bool many = feature[Y].kind == LK_FEATURE_INTS && feature[Y].n != 1 && !described &&
                o->label_shape.n == 0 && !o->label_one_hot;
    if (bare || many)
        return WRONG(p,
                     "feature \"%s\" has %lld %s: a label is one integer, targets are floats; "
                     "others need label_dtype, label_shape or label_one_hot",
                     f->name[Y], (long long)feature[Y].n, kind_text(feature[Y].kind));
    LK_TRY(take_field(f, Y, p, "y", feature, &o->label_shape, &shape));
    int64_t classes = lk__record_description_classes(f->description);
    if (o->label_one_hot)
        y->use = LK_RECORD_ONE_HOT;
    else if (is_whole(y->in.dtype) && (!described || classes > 0))
        y->use = LK_RECORD_LABELS;
    if (f->classes == 0 && y->use == LK_RECORD_LABELS)
        f->classes = classes;
    if (y->use == LK_RECORD_ONE_HOT) {
        LK_TRY(lk_shape_count(shape, &classes));
        LK_CHECK(f->classes == 0 || f->classes == classes, LK_EINVAL,
                 "%s: the rows of \"%s\" have %lld values for %lld classes",
                 lk__source_name(p->w->source), f->name[Y], (long long)classes,
                 (long long)f->classes);
        f->classes = classes;
        shape = LK_SCALAR;
    }
    if (y->use == LK_RECORD_VALUES)
        f->classes = 0;
    y->of = info->n_fields;
    info->field[info->n_fields++] = lk__field(
        "y", y->use == LK_RECORD_VALUES ? y->in.dtype : LK_I64, shape);
    return LK_OK;
}

static lk_status describe_further(lk__record_fields *f, int i, const struct place *p,
                                  const lk__feature *feature, lk_dataset_info *info)
{
    lk_option_ints given = {.n = 0};
    lk_shape shape = f->field[i].in.shape;
    if (feature[i].kind == LK_FEATURE_NONE)
        return WRONG(p, "the record has no feature \"%s\" with values", f->name[i]);
    for (int a = 0; a < shape.ndim; a++)
        given.item[given.n++] = shape.dim[a];
    LK_TRY(take_field(f, i, p, f->name[i], feature, &given, &shape));
    f->field[i].of = info->n_fields;
    info->field[info->n_fields++] = lk__field(f->name[i], f->field[i].in.dtype, shape);
    return LK_OK;
}

lk_status lk__record_fields_describe(lk__record_fields *f, const lk__record_options *o,
                                     const lk__example_window *w, int64_t offset,
                                     const lk__feature *feature, lk_dataset_info *info)
{
    const struct place p = {w, offset};
    lk_shape shape;
    if (feature[X].kind == LK_FEATURE_NONE)
        return WRONG(&p, "the record has no feature \"%s\" with values", f->name[X]);
    LK_TRY(description_take(f, &p, &feature[LK_RECORD_DESCRIPTION]));
    LK_TRY(take_field(f, X, &p, "x", feature, &o->shape, &shape));
    info->field[0] = lk__field("x", f->field[X].in.dtype, shape);
    info->n_fields = 1;
    LK_TRY(describe_y(f, o, &p, feature, info));
    for (int i = FURTHER; i < f->n; i++)
        LK_TRY(describe_further(f, i, &p, feature, info));
    info->classes = f->field[Y].of >= 0 ? f->classes : 0;
    return LK_OK;
}

bool lk__record_fields_labels(const lk__record_fields *f)
{
    return f->field[Y].of >= 0 && f->field[Y].use == LK_RECORD_LABELS;
}

/* ---- what others must be like ---- */

/* What a record says in its note is what the first says there, or neither has one: dtypes, shapes and classes
 * would depend on the order of the files. */
static lk_status description_check(const lk__record_fields *f, const struct place *p,
                                   const lk__feature *description)
{
    char text[LK_RECORD_TEXT];
    bool is_text = description->kind == LK_FEATURE_BYTES && description->n < LK_RECORD_TEXT;
    if (is_text)
        LK_TRY(short_text(p->w, description, text));
    if (!is_text && f->description)
        return WRONG(p,
                     "the record has no feature \"%s\", which says \"%s\" in the first one; to "
                     "join them, write both by lockstep data convert",
                     LK_RECORD_DESCRIPTION_NAME, f->description);
    if (is_text && !f->description)
        return WRONG(p,
                     "the record has a feature \"%s\", which says \"%s\", but the first one has "
                     "none; to join them, write both by lockstep data convert",
                     LK_RECORD_DESCRIPTION_NAME, text);
    if (is_text && strcmp(text, f->description) != 0)
        return WRONG(p, "it is of another set: its samples are %s, but those of the first %s", text,
                     f->description);
    return LK_OK;
}

lk_status lk__record_fields_check(const lk__record_fields *f, const lk__example_window *w,
                                  int64_t offset, const lk__feature *feature)
{
    const struct place p = {w, offset};
    for (int i = 0; i < f->n; i++) {
        const lk__record_field *like = &f->field[i];
        if (feature[i].kind == LK_FEATURE_NONE && like->kind != LK_FEATURE_NONE)
            return WRONG(&p, "the record has no feature \"%s\" with values, as the first has",
                         f->name[i]);
        if (feature[i].kind != like->kind || feature[i].n != like->n)
            return WRONG(&p, "it has %lld %s in \"%s\", but the first one %lld %s",
                         (long long)feature[i].n, kind_text(feature[i].kind), f->name[i],
                         (long long)like->n, kind_text(like->kind));
        if (feature[i].kind == LK_FEATURE_INTS && feature[i].scattered && like->n > 1)
            return LK_RECORD_WRONG(LK_ENOTSUP, w->source, w->record, offset,
                                   "the integers of \"%s\" are not packed in one piece, which is "
                                   "not supported",
                                   f->name[i]);
    }
    for (int i = 0; f->sized && i < 3; i++) {
        const lk__feature *size = &feature[LK_RECORD_HEIGHT + i];
        if (size->kind != LK_FEATURE_INTS || size->n != 1 || size->value[0] != f->size[i])
            return WRONG(&p, "\"%s\" is not %lld, as in the first record",
                         f->name[LK_RECORD_HEIGHT + i], (long long)f->size[i]);
    }
    return LK_TRACE(description_check(f, &p, &feature[LK_RECORD_DESCRIPTION]));
}
