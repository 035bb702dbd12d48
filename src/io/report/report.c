/* The report of a run: one HTML file, from top to bottom headline, charts, model, confusion, metadata,
 * experiment.  Every text from outside is escaped, and the page is told to load nothing. */
#include "io/report/report.h"

#include "base/fpenv.h"
#include "data/sink.h"
#include "io/kv.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/version.h>

static lk_status charts_check(const lk_chart *chart, int64_t n)
{
    LK_CHECK(chart || n == 0, LK_EINVAL, "charts are NULL");
    for (int64_t i = 0; i < n; i++) {
        LK_CHECK(chart[i].title && (chart[i].curve || chart[i].n == 0), LK_EINVAL,
                 "chart %lld has no title, or its curves are NULL", (long long)i);
        for (int64_t k = 0; k < chart[i].n; k++) {
            const lk_curve *c = &chart[i].curve[k];
            LK_CHECK(c->name && ((c->x && c->y) || c->n == 0), LK_EINVAL,
                     "curve %lld of chart \"%s\" has no name, or its values are NULL", (long long)k,
                     chart[i].title);
        }
    }
    return LK_OK;
}

static void put_value(lk__out *o, const lk_kv *kv)
{
    switch (kv->type) {
    case LK_KV_REAL: lk__out_short(o, kv->real); break;
    case LK_KV_INT: lk__out_count(o, kv->integer); break;
    case LK_KV_TEXT:
    case LK_KV_JSON: lk__out_html(o, kv->text); break;
    }
}

static void put_head(lk__out *o, const lk_report *r)
{
    lk__out_put(
        o, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" "
           "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    lk__out_html(o, r->title);
    lk__out_put(o, "</title>\n<style>\n");
    lk__out_put(o, lk__report_style);
    lk__out_put(o, "</style></head>\n<body><main>\n<header><h1>");
    lk__out_html(o, r->title);
    lk__out_put(o, "</h1>");
    if (r->subtitle) {
        lk__out_put(o, "<p>");
        lk__out_html(o, r->subtitle);
        lk__out_put(o, "</p>");
    }
    lk__out_put(o, "</header>\n");
}

static void put_headline(lk__out *o, const lk_report *r)
{
    if (r->n_headline == 0)
        return;
    lk__out_put(o, "<section class=\"cards\">\n");
    for (int64_t i = 0; i < r->n_headline; i++) {
        lk__out_put(o, "<div><b>");
        put_value(o, &r->headline[i]);
        lk__out_put(o, "</b><span>");
        lk__out_html(o, r->headline[i].name);
        lk__out_put(o, "</span></div>\n");
    }
    lk__out_put(o, "</section>\n");
}

static void put_charts(lk__out *o, const lk_report *r)
{
    if (r->n_charts == 0)
        return;
    lk__out_put(o, "<section class=\"charts\">\n");
    for (int64_t i = 0; i < r->n_charts; i++)
        lk__report_chart(o, &r->chart[i]);
    lk__out_put(o, "</section>\n");
}

static void put_metadata(lk__out *o, const lk_report *r)
{
    if (r->n_metadata == 0)
        return;
    lk__out_put(o, "<section><h2>Run</h2>\n<div class=\"wide\"><table class=\"metadata\">\n");
    for (int64_t i = 0; i < r->n_metadata; i++) {
        lk__out_put(o, "<tr><th scope=\"row\">");
        lk__out_html(o, r->metadata[i].name);
        lk__out_put(o, "</th><td>");
        put_value(o, &r->metadata[i]);
        lk__out_put(o, "</td></tr>\n");
    }
    lk__out_put(o, "</table></div></section>\n");
}

static lk_status put_page(lk__out *o, const lk_report *r)
{
    put_head(o, r);
    put_headline(o, r);
    put_charts(o, r);
    if (r->model) {
        lk__out_put(o, "<section><h2>Model</h2>\n");
        LK_TRY(lk__report_layers(o, r->model));
        lk__out_put(o, "</section>\n");
    }
    if (r->confusion) {
        lk__out_put(o, "<section><h2>Confusion</h2>\n");
        LK_TRY(lk__report_confusion(o, r->confusion));
        lk__out_put(o, "</section>\n");
    }
    put_metadata(o, r);
    if (r->experiment) {
        lk__out_put(o, "<details><summary>Experiment</summary><pre>");
        lk__out_html(o, r->experiment);
        lk__out_put(o, "</pre></details>\n");
    }
    lk__out_put(o, "<footer>Lockstep ");
    lk__out_html(o, lk_version());
    lk__out_put(o, "</footer>\n</main></body></html>\n");
    return LK_TRACE(o->st);
}

lk_status lk_report_write(const char *path, const lk_report *r)
{
    LK_FP_GUARD();
    lk_status st;
    lk__out o = {0};
    lk__sink *sink = NULL;
    LK_CHECK(path && r && r->title, LK_EINVAL, "path, report or its title is NULL");
    LK_TRY(lk__kvs_check(r->headline, r->n_headline));
    LK_TRY(lk__kvs_check(r->metadata, r->n_metadata));
    LK_TRY(charts_check(r->chart, r->n_charts));
    LK_TRY_TO(done, put_page(&o, r));
    LK_TRY_TO(done, lk__sink_open(path, &sink));
    LK_TRY_TO(done, lk__sink_end(sink, lk__sink_write(sink, o.text, o.n)));
done:
    lk_free(o.text);
    return st;
}
