/* Collecting what the report of a run shows: headline, curves, model, confusion, metadata and the
 * experiment.  See page.h. */
#include "train/run/page.h"

#include "train/run/text.h"

#include <lockstep/extra/alloc.h>

static lk_status page_write(const lk__page *p, const char *path, const char *experiment)
{
    char hash[LK_HASH_TEXT], state[LK_HASH_TEXT + sizeof(lk_short_string)];
    lk_chart chart[1 + LK_MAX_METRICS];
    lk_curve curve[1 + LK_MAX_METRICS][2];
    lk_kv headline[2 + LK_MAX_METRICS], metadata[10];
    const lk_experiment *e = lk_job_experiment(p->job);
    const lk_eval *eval = p->end->last.evaluated ? &p->end->last.test : &p->end->last.train;
    bool has_samples = eval->samples > 0;
    lk_position at = lk_trainer_position(
        lk_job_trainer(p->curves->job)); /* of the whole run, resumed or not */
    const char *name;
    int64_t n = 0, n_metadata = 0;
    for (int i = 0; (name = lk__curve_name(p->curves, i)); i++) {
        double value = has_samples ? lk__curve_value(eval, i) : 0;
        if (lk__curve_is_drawn(p->curves, i) &&
            (has_samples || lk__curve_last(p->curves, i, &value)))
            headline[n++] = lk_kv_real(name, value);
    }
    if (p->ended)
        metadata[n_metadata++] = lk_kv_text("ended", p->ended);
    lk_short_string marks = lk_parallel_marks(&e->parallel);
    snprintf(state, sizeof state, "%s%s%s", lk_hash_text(p->end->state, hash),
             marks.s[0] ? " " : "", marks.s);
    if (p->end->done) /* in the middle of a step there is none */
        metadata[n_metadata++] = lk_kv_text("state", state);
    if (lk_job_phase(p->job))
        metadata[n_metadata++] = lk_kv_text("phase", lk_job_phase(p->job)->name);
    metadata[n_metadata++] = lk_kv_int("epochs", at.epoch);
    metadata[n_metadata++] = lk_kv_int("steps", at.step);
    if (p->end->resumed >= 0)
        metadata[n_metadata++] = lk_kv_int("resumed from the checkpoint of step", p->end->resumed);
    metadata[n_metadata++] = lk_kv_real(p->end->resumed >= 0 ? "seconds since then" : "seconds",
                                        p->end->last.seconds);
    metadata[n_metadata++] = lk_kv_int("seed", e->seed);
    metadata[n_metadata++] = lk_kv_text(
        "data", lk_dataset_info_of(lk_loader_dataset(lk_job_loader(p->job, LK_TRAIN)))->name);
    metadata[n_metadata++] = lk_kv_text("optimizer", e->optimizer.descriptor->name);
    lk_report report = {.title = e->path,
                        .subtitle = e->about,
                        .headline = headline,
                        .n_headline = n,
                        .chart = chart,
                        .n_charts = lk__curves_charts(p->curves, chart, curve),
                        .model = lk_trainer_model(lk_job_trainer(p->curves->job)),
                        .confusion = p->confusion,
                        .metadata = metadata,
                        .n_metadata = n_metadata,
                        .experiment = experiment};
    return LK_TRACE(lk_report_write(path, &report));
}

lk_status lk__page_write(const lk__page *page, const char *path)
{
    const lk_experiment *e = lk_job_experiment(page->job);
    char *file = e->text ? NULL : lk__file_text(e->path);
    lk_status st = page_write(page, path, e->text ? e->text : file);
    lk_free(file);
    return LK_TRACE(st);
}
