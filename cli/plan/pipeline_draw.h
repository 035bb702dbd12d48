/* Schedules of pipelines as pictures: for `lockstep plan --schedule`. */
#ifndef LK_CLI_PIPELINE_DRAW_H
#define LK_CLI_PIPELINE_DRAW_H

#include <lockstep/extra/pipeline.h>

#include <stdbool.h>

/** The most stages and micro-batches that are drawn. */
enum { PIPELINE_DRAW_STAGES = 64, PIPELINE_DRAW_MICROBATCHES = 256 };

/**
 * Draw a schedule, or with `compare` all that train, with the micro-batches and lags of the spec, equal times of
 * forward and of each half of backward and none of messages: on stdout a line a stage, and a table of what
 * they take, or with `json` the table alone; to the file `path`, unless it is NULL, as SVG.  Returns an exit
 * status, after a message on stderr if it is not LK_EXIT_DONE.
 */
int pipeline_draw(const lk_pipeline_spec *spec, bool compare, const char *path, bool json);

#endif /* LK_CLI_PIPELINE_DRAW_H */
