/* The parts of a report: report.c writes them one behind the other into one lk__out, when lk_report_write()
 * is called, on its caller's thread (of a run: page.c, on rank 0).
 */
#ifndef LK_IO_REPORT_H
#define LK_IO_REPORT_H

#include "io/out.h"

#include <lockstep/io.h>

/** A chart as a figure with its legend and an SVG picture. */
void lk__report_chart(lk__out *o, const lk_chart *chart);

/** A table of how often each label was taken for each class, from JSON.  Errors: LK_EIO,
 * LK_ENOMEM. */
lk_status lk__report_confusion(lk__out *o, const char *json) LK_NODISCARD;

/** A table of the layers of a model.  Errors: none but those of lk_model_layer(). */
lk_status lk__report_layers(lk__out *o, const lk_model *model) LK_NODISCARD;

/** The style sheet. */
extern const char *const lk__report_style;

#endif /* LK_IO_REPORT_H */
