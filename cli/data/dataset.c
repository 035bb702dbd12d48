/* Datasets of the command line: how they are chosen, and what their values are like. */
#include "data/dataset.h"

#include "verb.h"

#include <lockstep/lockstep.h>

#include <math.h>
#include <string.h>

static bool is_assignment(const char *operand)
{
    size_t n = strspn(operand, "abcdefghijklmnopqrstuvwxyz_");
    return n > 0 && operand[n] == '=';
}

int dataset_operands(dataset_choice *c, const char *command, int n, char **operand, int max,
                     const char **path, lk_arena *arena)
{
    int paths = 0;
    if (lk_arena_alloc(arena, &c->assigned, n, sizeof *c->assigned) != LK_OK) {
        (void)verb_failed();
        return -1;
    }
    for (int i = 0; i < n; i++) {
        if (is_assignment(operand[i])) {
            c->assigned[c->n_assigned++] = operand[i];
            continue;
        }
        if (paths == max) {
            (void)verb_refuse("%s: there is nothing to do with \"%s\"", command, operand[i]);
            return -1;
        }
        path[paths++] = operand[i];
    }
    return paths;
}

/* All options as one text; values with blanks are set afterwards. */
static lk_status options_text(const dataset_choice *c, lk_arena *arena, char **out)
{
    size_t size = (c->options ? strlen(c->options) : 0) + 1, at = 0;
    for (int i = 0; i < c->n_assigned; i++)
        size += strlen(c->assigned[i]) + 1;
    LK_TRY(lk_arena_alloc(arena, out, (int64_t)size, 1));
    at += (size_t)snprintf(*out, size, "%s", c->options ? c->options : "");
    for (int i = 0; i < c->n_assigned; i++)
        if (!strpbrk(c->assigned[i], " \t"))
            at += (size_t)snprintf(*out + at, size - at, "%s%s", at > 0 ? " " : "", c->assigned[i]);
    return LK_OK;
}

/* Those whose values have blanks. */
static lk_status options_set(const dataset_choice *c, lk_arena *arena, const lk_config *config)
{
    for (int i = 0; i < c->n_assigned; i++) {
        const char *text = c->assigned[i], *name;
        size_t n = strcspn(text, "=");
        if (!strpbrk(text, " \t"))
            continue;
        LK_TRY(lk_arena_text(arena, text, n, &name));
        const lk_option *option = lk_option_find(config->descriptor->options, name);
        LK_CHECK(option, LK_EINVAL, "the format \"%s\" has no option \"%s\"",
                 config->descriptor->name, name);
        LK_TRY(lk_option_set(option, config->options, text + n + 1, arena));
    }
    return LK_OK;
}

lk_status dataset_choose(const dataset_choice *c, const char *path, lk_arena *arena, lk_config *out)
{
    LK_CHECK(path || c->type, LK_EINVAL, "name a file or folder, or a --type that needs none");
    lk_config guess = {0};
    const char *type = c->type;
    char *text;
    if (!type) {
        LK_TRY(lk_format_guess(path, arena, &guess));
        type = guess.descriptor->name;
    }
    LK_TRY(options_text(c, arena, &text));
    LK_TRY(lk_config_parse(&lk_registry_format, type, text, arena, out));
    LK_TRY(options_set(c, arena, out));
    if (!path)
        return LK_OK;
    const lk_option *option = lk_option_find(out->descriptor->options, "path");
    LK_CHECK(option, LK_EINVAL, "the format \"%s\" reads no file", type);
    return LK_TRACE(lk_option_set(option, out->options, path, arena));
}

enum { ROWS = 64 };

/* Go on with the values of `t`. */
static lk_status take_values(lk_tensor *t, dataset_range *r)
{
    lk_tensor *values;
    LK_TRY(lk_tensor_clone(t, LK_F64, &values));
    const double *v = lk_tensor_data(values);
    for (int64_t i = 0; i < lk_tensor_count(values); i++) {
        r->min = v[i] < r->min ? v[i] : r->min;
        r->max = v[i] > r->max ? v[i] : r->max;
        r->mean += v[i];
    }
    lk_tensor_free(values);
    return LK_OK;
}

/* Samples `first` to `first` + n - 1. */
static lk_status take_rows(const lk_dataset *ds, int f, int64_t first, int64_t n, dataset_range *r)
{
    const lk_field *field = &lk_dataset_info_of(ds)->field[f];
    lk_shape shape = {.ndim = field->shape.ndim + 1, .dim = {n}};
    memcpy(shape.dim + 1, field->shape.dim, (size_t)field->shape.ndim * sizeof shape.dim[0]);
    lk_tensor *tensor[LK_MAX_FIELDS] = {NULL};
    int64_t index[ROWS];
    for (int64_t i = 0; i < n; i++)
        index[i] = first + i;
    LK_TRY(lk_tensor_new(field->dtype, shape, &tensor[f]));
    lk_status st = lk_dataset_read(ds, index, n, tensor);
    if (st == LK_OK)
        st = take_values(tensor[f], r);
    lk_tensor_free(tensor[f]);
    return st;
}

lk_status dataset_measure(const lk_dataset *ds, int f, dataset_range *out)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    int64_t values;
    *out = (dataset_range){(double)INFINITY, (double)-INFINITY, 0};
    for (int64_t i = 0; i < info->count; i += ROWS)
        LK_TRY(take_rows(ds, f, i, info->count - i < ROWS ? info->count - i : ROWS, out));
    LK_TRY(lk_shape_count(info->field[f].shape, &values));
    if (values * info->count == 0)
        *out = (dataset_range){0, 0, 0};
    else
        out->mean /= (double)values * (double)info->count;
    return LK_OK;
}
