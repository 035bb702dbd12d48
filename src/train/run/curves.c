/* lk__curves: the points of loss and metrics, those read from an earlier part of the run, and their
 * charts.  See curves.h. */
#include "train/run/curves.h"

#include "base/memory/grow.h"
#include "base/text/number.h"
#include "train/run/text.h"

#include <lockstep/extra/alloc.h>

#include <stdio.h>
#include <string.h>

void lk__curves_free(lk__curves *c)
{
    for (int i = 0; i < 1 + LK_MAX_METRICS; i++) {
        lk_free(c->train[i].x);
        lk_free(c->train[i].y);
        lk_free(c->test[i].x);
        lk_free(c->test[i].y);
    }
}

const char *lk__curve_name(const lk__curves *c, int i)
{
    bool lower;
    return i == 0 ? "loss" : lk_trainer_metric(lk_job_trainer(c->job), i - 1, &lower);
}

bool lk__curve_is_drawn(const lk__curves *c, int i)
{
    return i == 0 || lk_trainer_metric_is_number(lk_job_trainer(c->job), i - 1);
}

double lk__curve_value(const lk_eval *eval, int i)
{
    return i == 0 ? eval->loss : eval->value[i - 1];
}

lk_status lk__points_add(lk__points *p, double x, double y)
{
    LK_TRY(lk__grow(&p->x, &p->x_room, p->n + 1, sizeof *p->x));
    LK_TRY(lk__grow(&p->y, &p->y_room, p->n + 1, sizeof *p->y));
    p->x[p->n] = x;
    p->y[p->n++] = y;
    return LK_OK;
}

/* ---- of an earlier part of the run ---- */

/* A number of a line of metrics, by its key; false if the line has none. */
static bool line_number(const char *line, const char *set, const char *name, double *out)
{
    char key[32 + 48 + 8];
    snprintf(key, sizeof key, "\"%.32s%s%.48s\":", set, *set ? "/" : "", name);
    const char *at = strstr(line, key);
    if (!at)
        return false;
    char number[LK_NUMBER_TEXT];
    at += strlen(key);
    at += strspn(at, " ");
    size_t n = strcspn(at, ",}");
    if (n >= sizeof number)
        return false;
    memcpy(number, at, n);
    number[n] = '\0';
    return lk__number_read_real(number, out) == NULL;
}

/* The points of the curves from the lines of an earlier part of the run. */
static lk_status curves_read(lk__curves *c, char *text)
{
    lk_position at = lk_trainer_position(lk_job_trainer(c->job));
    for (char *line = text, *next; line && *line; line = next) {
        double step, value;
        const char *name;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (!strstr(line, "\"epoch\":") || !line_number(line, "", "step", &step))
            continue;
        double epoch = step / (double)at.batches;
        for (int i = 0; (name = lk__curve_name(c, i)); i++) {
            if (line_number(line, "train", name, &value))
                LK_TRY(lk__points_add(&c->train[i], epoch, value));
            if (line_number(line, c->set, name, &value))
                LK_TRY(lk__points_add(&c->test[i], epoch, value));
        }
    }
    return LK_OK;
}

lk_status lk__curves_resume(lk__curves *c, const char *path, int64_t bytes)
{
    char *text = lk__file_text(path);
    if (text && (int64_t)strlen(text) > bytes)
        text[bytes] = '\0';
    lk_status st = text ? curves_read(c, text) : LK_OK;
    lk_free(text);
    return LK_TRACE(st);
}

/* ---- for the report ---- */

int64_t lk__curves_charts(const lk__curves *c, lk_chart *chart, lk_curve (*curve)[2])
{
    int64_t n = 0;
    const char *name;
    for (int i = 0; (name = lk__curve_name(c, i)); i++) {
        if (!lk__curve_is_drawn(c, i))
            continue;
        curve[i][0] = (lk_curve){"training", c->train[i].x, c->train[i].y, c->train[i].n};
        curve[i][1] = (lk_curve){c->set, c->test[i].x, c->test[i].y, c->test[i].n};
        chart[n++] = (lk_chart){name, "epoch", curve[i], c->test[i].n > 0 ? 2 : 1};
    }
    return n;
}

bool lk__curve_last(const lk__curves *c, int i, double *out)
{
    const lk__points *p = c->test[i].n > 0 ? &c->test[i] : &c->train[i];
    if (p->n > 0)
        *out = p->y[p->n - 1];
    return p->n > 0;
}
