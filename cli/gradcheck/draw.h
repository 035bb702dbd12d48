/* gradcheck_layout: a layout drawn at random, and its schedule.  random_layouts.c draws a few for each model
 * before it runs any, on the verb's thread; a job of one rank says which are possible.
 */
#ifndef LK_CLI_GRADCHECK_DRAW_H
#define LK_CLI_GRADCHECK_DRAW_H

#include <lockstep/train.h>

/** The most ranks of a layout. */
enum { GRADCHECK_RANKS = 16 };

typedef struct gradcheck_layout {
    lk_mesh_shape shape;
    int ranks;
    char word[LK_MESH_WORD];
    const char *schedule; /* of stages; otherwise NULL */
    const char *lag;      /* of schedule zb1p; otherwise NULL */
    int64_t micro_batch;
    bool recompute;
    char parallel[192]; /* all of it as the section of an experiment, "{data: 2, stages: 3}" */
} gradcheck_layout;

/**
 * Draw up to `n` different layouts of several ranks for a job of one, of those that its shards, pieces and
 * layers allow, each as likely as any other; seed and name decide which.  Schedule, lag, micro-batch and
 * whether stages recompute are drawn as well.
 *
 * `*found` may be less: there are no more.  Errors: LK_ENOMEM.
 */
lk_status gradcheck_draw(const lk_job *job, int64_t seed, const char *name, int64_t n,
                         gradcheck_layout *out, int64_t *found) LK_NODISCARD;

#endif /* LK_CLI_GRADCHECK_DRAW_H */
