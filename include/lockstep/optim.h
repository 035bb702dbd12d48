/* Optimizers: how parameters follow their gradients.
 *
 * An optimizer is one constant descriptor in one file of src/optim/rules, and each is one fused loop
 * over a slab: gradient, state and parameter are read and written once.  All state lies in slabs
 * laid out as the parameters, and in a few numbers, so a checkpoint has all of it.
 *
 *     lk_optimizer_new(lk_model_params(model), "adam", "rate=0.003 schedule=cosine", &optimizer);
 *     lk_optimizer_step(optimizer, &(lk_optimizer_input){.grads = sums, .at = {.step = 0}}, NULL);
 *
 * The gradient that is followed, for all rules:
 *
 *     g' = g * min(1, clip_norm / norm of all g)      if clip_norm is given
 *     h  = g' limited to [-clip, clip]  +  decay * w  (adamw: decay apart)
 *
 * Not collective.  Each element's update is a fixed expression; the norm is a sum by pieces of the
 * slab.  So the bits depend on neither threads nor instruction set, nor on who updates what.
 */
#ifndef LK_OPTIM_H
#define LK_OPTIM_H

#include <lockstep/option.h>
#include <lockstep/slab.h>

LK_BEGIN_DECLS

/* ---- schedules: a factor that changes with time ---- */

/** Where in the training a schedule is asked. */
typedef struct lk_schedule_point {
    int64_t step;            /* from 0 */
    int64_t steps_per_epoch; /* 0: as 1, each step is an epoch */
    int64_t epochs;          /* to be trained in all; 0: not known */
} lk_schedule_point;

typedef struct lk_schedule {
    lk_descriptor descriptor;
    lk_status (*check)(const void *options); /* what ranges cannot say; may be NULL */
    double (*factor)(const void *options, const lk_schedule_point *at);
    bool (*uses_end)(const void *options); /* whether lk_schedule_point.epochs matters; NULL: no */
} lk_schedule;

LK_API extern const lk_schedule *const lk_schedules[];
LK_API extern const lk_registry lk_registry_schedule;

/** What a schedule says; 1 if `schedule` has no descriptor. */
LK_API double lk_schedule_factor(const lk_config *schedule, const lk_schedule_point *at);

/** Whether what a schedule says depends on how many epochs are to be trained; not if it has no descriptor. */
LK_API bool lk_schedule_uses_end(const lk_config *schedule);

/* ---- optimizers ---- */

/** The options of all optimizers; the struct of an optimizer's options begins with it. */
typedef struct lk_optimizer_options {
    double rate;
    lk_config schedule;
    double decay;
    double clip;      /* 0: none */
    double clip_norm; /* 0: none */
} lk_optimizer_options;

/* Their rows, with the rate that the optimizer is known for: `type` has a member `all`. */
#define LK_OPTIMIZER_OPTIONS(type, usual)                                                          \
    {"rate",       LK_OPTION_REAL, offsetof(type, all.rate),                                       \
     .def = usual, .max = 1e30,    .help = "learning rate, for the mean loss of the whole batch"}, \
        {"schedule", LK_OPTION_CONFIG, offsetof(type, all.schedule),                               \
         .registry = &lk_registry_schedule, .help = "factor on the rate that changes with time"},  \
        {"decay",                                                                                  \
         LK_OPTION_REAL,                                                                           \
         offsetof(type, all.decay),                                                                \
         .def = "0",                                                                               \
         .max = 1e30,                                                                              \
         .help = "weight decay: this times the parameter is added to its gradient"},               \
        {"clip",                                                                                   \
         LK_OPTION_REAL,                                                                           \
         offsetof(type, all.clip),                                                                 \
         .def = "0",                                                                               \
         .max = 1e30,                                                                              \
         .help = "limit each element of the gradient to this magnitude; 0: no limit"},             \
    {                                                                                              \
        "clip_norm", LK_OPTION_REAL, offsetof(type, all.clip_norm),                                \
            .def = "0", .max = 1e30,                                                               \
            .help =                                                                                \
                "scale the gradient so that the norm of all of it is at most this; 0: no limit"    \
    }

enum { LK_OPTIMIZER_MAX_SLABS = 36, LK_OPTIMIZER_MAX_NUMBERS = 2 };

/** An update rule with its state.  A trainer makes one, or the program does, and calls it once in a step;
 * one thread at a time.  Not collective. */
typedef struct lk_optimizer lk_optimizer;
typedef struct lk_update_rule lk_update_rule;

/** What an optimizer has besides parameters.  Names NULL: no more. */
typedef struct lk_optimizer_state {
    const char *slab[LK_OPTIMIZER_MAX_SLABS];
    double start[LK_OPTIMIZER_MAX_SLABS]; /* of all elements */
    const char *number[LK_OPTIMIZER_MAX_NUMBERS];
    double number_start[LK_OPTIMIZER_MAX_NUMBERS];
} lk_optimizer_state;

/**
 * Parameters whose first axes are positions, of which ranks may hold some each: numbers over all elements
 * are added up position by position, each by pieces of 4096 elements, then over the positions of the
 * whole in their order, and so do not depend on who holds which.
 */
typedef struct lk_optimizer_positions {
    const int *axes; /* of each tensor: how many are positions; 0: none */
    double *sum;     /* room for two of each position of the tensor that has the most */
    /* Not NULL: add up sum [n], one of each position, 0 of those that others hold, over their holders. */
    lk_status (*join)(void *context, double *sum, int64_t n);
    void *context;
} lk_optimizer_positions;

/** How a tensor is cut into blocks, of which ranks may hold some each: row-major it is [...][n][inner], the
 * blocks are `block` of n, and `held` of n is here.  n 0: it is not cut. */
typedef struct lk_optimizer_cut {
    int64_t n, inner, block;
    lk_range held;
} lk_optimizer_cut;

/**
 * Parameters that are cut into blocks: numbers over all elements are added up block by block, each by pieces
 * of 4096 of its elements in row-major order, then over the blocks of a tensor, by the tree, and so do
 * not depend on who holds which.
 */
typedef struct lk_optimizer_blocks {
    const lk_optimizer_cut *cut; /* of each tensor */
    double *sum;                 /* room for one of each block of all tensors, */
    double *room;                /* and 270000 doubles, and one for each 4096 elements of a block */
    /* Not NULL: add up sum [n], one of each block, 0 of those that others hold, over their holders. */
    lk_status (*join)(void *context, double *sum, int64_t n);
    void *context;
} lk_optimizer_blocks;

/** One update of a range of elements. */
typedef struct lk_update_call {
    const void *options;
    lk_dtype dtype;
    int64_t n; /* elements */
    /* Where the tensors lie in w, g and each state; of a range, in the whole. */
    const lk_slab_layout *layout;
    /* As lk_optimizer_input's. */
    lk_status (*join_sums)(void *context, double *sum, int64_t n);
    void *context;
    const lk_optimizer_positions *positions;
    const lk_optimizer_blocks *blocks;
    const bool
        *frozen; /* as lk_optimizer_input's, for a rule that needs all elements in one call */
    double *sum; /* room for one of each tensor, where sums are joined */
    void *w;
    const void *g;
    void *state[LK_OPTIMIZER_MAX_SLABS];
    double *number; /* the state that is numbers */
    double rate;    /* with the schedule's factor */
    double scale;   /* on g, from clip_norm */
    int64_t step;   /* from 0 */
    lk_schedule_point at;
} lk_update_call;

struct lk_update_rule {
    lk_descriptor descriptor;
    bool whole; /* needs all elements in one call */
    lk_status (*check)(const void *options);
    /** What state it needs with these options. */
    lk_optimizer_state (*state)(const void *options);
    /** Before the elements of a step: move the numbers on.  May be NULL. */
    void (*begin)(const lk_update_call *call, double *number);
    lk_status (*update)(const lk_update_call *call);
};

LK_API extern const lk_update_rule *const lk_update_rules[];
LK_API extern const lk_registry lk_registry_optimizer;

/**
 * Make an optimizer for the parameters in `params`, which it borrows: the name of its rule, and its
 * options as lk_config_parse() reads them; NULL: all defaults.
 *
 * The caller owns `*out`; it owns what it has read.  Errors: those of lk_config_parse() and of the
 * rule's check; LK_EDTYPE unless all parameters are f32 or all f64; LK_ENOTSUP for a part of a tensor
 * where the rule needs all parameters; LK_ENOMEM.
 */
LK_API lk_status lk_optimizer_new(lk_slab *params, const char *rule, const char *options,
                                  lk_optimizer **out) LK_NODISCARD;

/** As lk_optimizer_new(), from a config of lk_registry_optimizer, whose options are borrowed until the
 * optimizer is freed; `rule->options` NULL: all defaults. */
LK_API lk_status lk_optimizer_new_config(lk_slab *params, const lk_config *rule,
                                         lk_optimizer **out) LK_NODISCARD;

/** NULL is allowed. */
LK_API void lk_optimizer_free(lk_optimizer *optimizer);

/** State slab number i and its name ("m"); NULL behind the last.  Borrowed. */
LK_API lk_slab *lk_optimizer_slab(const lk_optimizer *optimizer, int i, const char **name);

/** State number i and its name; NULL behind the last.  Borrowed, may be set when resuming. */
LK_API double *lk_optimizer_number(lk_optimizer *optimizer, int i, const char **name);

typedef struct lk_optimizer_input {
    const lk_slab *grads; /* its first slices are those of the parameters, names too */
    lk_schedule_point at;
    /* Not NULL: where gradients come from instead.  The step is then of the elements first <= i < first + n
     * of the slabs, on borders of LK_ALIGN bytes, which an optimizer can whose rule needs no others and
     * that is asked for no norm of all.  Called with `context` for a range of these elements at a time,
     * each once, maybe on several threads; writes their gradients to `out`.  For parameters that others
     * read: they are stored past the caches. */
    lk_status (*read_gradient)(void *context, int64_t first, int64_t n, void *out);
    /* Not NULL: other ranks hold the tensors of which nothing is here.  Called with `context` for each
     * number that a rule, or clip_norm, needs over all parameters: sum[i] is that of tensor i, 0 where it
     * is held elsewhere, and afterwards the holder's.  All ranks step together then. */
    lk_status (*join_sums)(void *context, double *sum, int64_t n);
    void *context;
    int64_t first, n;
    const lk_optimizer_positions *positions; /* NULL: no tensor has such */
    const lk_optimizer_blocks *blocks;       /* NULL: none is cut */
    /* Of each tensor, whether it stays as it is, with its state, whatever its gradient; NULL: none does. */
    const bool *frozen;
} lk_optimizer_input;

/** What was done. */
typedef struct lk_optimizer_report {
    double rate; /* with the schedule's factor */
    double norm; /* of the gradient before it was clipped; -1 if it was not needed */
} lk_optimizer_report;

/**
 * Change the parameters and the state by one step.  `report` may be NULL.
 *
 * Errors: LK_EINVAL for gradients that are not laid out as the parameters; LK_ENOTSUP where a number over
 * all parameters is needed, some are not here and nothing joins the sums; LK_ENOMEM, LK_EFPENV.
 */
LK_API lk_status lk_optimizer_step(lk_optimizer *optimizer, const lk_optimizer_input *step,
                                   lk_optimizer_report *report) LK_NODISCARD;

/** The Euclidean norm of all slices of `params`' layout in `grads`, by pieces of 4096 elements and the
 * fixed tree, in the slices' dtype.  Errors: as lk_optimizer_step(). */
LK_API lk_status lk_gradient_norm(const lk_slab *params, const lk_slab *grads,
                                  double *out) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_OPTIM_H */
