/* Plans and schedules of pipelines as pictures: for `lockstep plan --draw` and `--schedule`. */
#ifndef LK_CLI_PLAN_DRAW_H
#define LK_CLI_PLAN_DRAW_H

#include "plan/svg.h"

#include <lockstep/extra/pipeline.h>
#include <lockstep/extra/plan.h>

#include <stdbool.h>

/** A value of a layer as one rank sees it: its input in forward, or the gradient of its output in backward. */
typedef struct plan_view {
    const lk_plan *plan;
    const lk_layer_plan *layer;
    int number; /* 0: forward, 1: backward, as of plan_fetch() */
    int ndim;
    int64_t n[LK_TILE_AXES];
    lk_box own, reads; /* this rank's tiles of it, and what it reads */
} plan_view;

enum { PLAN_WHERE = 160, PLAN_LINE = 320 };

/** "rows 0-5, columns 6-7"; returns `out`. */
const char *plan_where(const lk_box *box, char out[PLAN_WHERE]);

/** "from rank 1: rows 0-5, columns 6-7: 30720 bytes" of a box that comes from a rank of the grid, `bytes` a
 * position, and its class for svg_rect(). */
void plan_fetched_text(const plan_view *view, int rank, const lk_box *box, int64_t bytes,
                       char out[PLAN_LINE], char kind[16]);

/** The size of a view with its legend, and drawing it with its upper left corner at x, y. */
svg_place plan_view_size(const plan_view *view);
void plan_view_draw(const plan_view *view, svg *to, svg_length x, svg_length y);

/** A volume seen from a corner, with its tiles and those of this rank, in a square of `side`. */
void plan_solid_draw(const plan_view *view, svg *to, svg_place square);

/**
 * Draw layer `name` of a plan (NULL: the first that fetches something, otherwise the first that runs by
 * tiles) to the file `path`.  Returns an exit status, after a message on stderr if it is not LK_EXIT_DONE.
 */
int plan_draw(const lk_plan *plan, const char *word, const char *name, const char *path);

/** Draw which features of each layer of the plan's stage lie on which rank, and what travels, to the file `path`.
 * The plan has several ranks along features, and is of the model.  Returns as plan_draw() does. */
int plan_draw_features(const lk_plan *plan, const lk_model *model, const char *word,
                       const char *path);

/** The most stages and micro-batches that are drawn. */
enum { PIPELINE_DRAW_STAGES = 64, PIPELINE_DRAW_MICROBATCHES = 256 };

/**
 * Draw a schedule, or with `compare` all that train, with the micro-batches and lags of the spec, equal times of
 * forward and of each half of backward and none of messages: on stdout a line a stage, and a table of what
 * they take, or with `json` the table alone; to the file `path`, unless it is NULL, as SVG.  Returns an exit
 * status, after a message on stderr if it is not LK_EXIT_DONE.
 */
int pipeline_draw(const lk_pipeline_spec *spec, bool compare, const char *path, bool json);

#endif /* LK_CLI_PLAN_DRAW_H */
