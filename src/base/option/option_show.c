/* lk_option_show(): the value of an option as the text that lk_option_set() reads, for help, plans
 * and reports. */
#include "base/option/option.h"
#include "base/text/number.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

struct text {
    char *buf;
    size_t size, used;
};

static void LK_PRINTF(2, 3) put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->buf + t->used, t->size - t->used, fmt, ap);
    va_end(ap);
    size_t room = t->size - t->used - 1;
    if (n > 0)
        t->used += (size_t)n < room ? (size_t)n : room;
}

static void put_list(struct text *t, const lk_option *o, const void *field)
{
    const lk_option_ints *ints = field;
    const lk_option_names *names = field;
    int n = *(const int *)field; /* all lists begin with their length */
    for (int i = 0; i < n; i++) {
        char number[LK_NUMBER_TEXT];
        const char *comma = i > 0 ? "," : "";
        if (o->type == LK_OPTION_INTS)
            put(t, "%s%" PRId64, comma, ints->item[i]);
        else if (o->type == LK_OPTION_REALS)
            put(t, "%s%s", comma, lk__number_show(lk__option_real_at(o, field, i), number));
        else
            put(t, "%s%s", comma, names->item[i]);
    }
}

static void put_choices(struct text *t, const lk_config *item, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (item[i].descriptor)
            put(t, "%s%s", i > 0 ? "," : "", item[i].descriptor->name);
}

const char *lk_option_show(const lk_option *o, const void *fields, char *buf, size_t size)
{
    const void *field = (const char *)fields + o->offset;
    struct text t = {buf, size, 0};
    char number[LK_NUMBER_TEXT];
    int n;
    buf[0] = '\0';
    switch (o->type) {
    case LK_OPTION_FLAG: put(&t, "%s", *(const bool *)field ? "true" : "false"); break;
    case LK_OPTION_INT: put(&t, "%" PRId64, *(const int64_t *)field); break;
    case LK_OPTION_REAL: put(&t, "%s", lk__number_show(*(const double *)field, number)); break;
    case LK_OPTION_TEXT:
        if (*(const char *const *)field)
            put(&t, "%s", *(const char *const *)field);
        break;
    case LK_OPTION_INTS:
    case LK_OPTION_REALS:
    case LK_OPTION_NAMES: put_list(&t, o, field); break;
    case LK_OPTION_CHOICE: {
        const char *word = lk_option_word(o->choices, *(const int *)field, &n);
        put(&t, "%.*s", n, word);
        break;
    }
    case LK_OPTION_CONFIG: put_choices(&t, field, 1); break;
    case LK_OPTION_CONFIGS:
        put_choices(&t, ((const lk_configs *)field)->item, ((const lk_configs *)field)->n);
        break;
    }
    return buf;
}
