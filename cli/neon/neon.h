/* What a recipe of neon says, for `lockstep convert neon` (cli/convert/neon.c): read.c looks at the file,
 * data.c, layers.c, rules.c and model.c fill a neon_recipe, write.c writes the
 * experiment.  All on one thread.
 *
 * What has no counterpart here becomes an issue with its place; reading goes on, so that all are named, and
 * nothing is written if there is one.  What is the same by other means, or differs, becomes a note.
 */
#ifndef LK_CLI_NEON_H
#define LK_CLI_NEON_H

#include <lockstep/extra/recipe.h>

#include <stdio.h>

/** A text with a place, in a list: of issues, or of notes, which have no place. */
typedef struct neon_remark neon_remark;
struct neon_remark {
    int64_t line, column;
    const char *text;
    neon_remark *next;
};

typedef enum neon_init_type {
    NEON_INIT_UNIFORM,
    NEON_INIT_NORMAL,
    NEON_INIT_CONSTANT
} neon_init_type;

/** What weights begin with: low and high, mean and deviation, or the value. */
typedef struct neon_init {
    neon_init_type type;
    double a, b;
} neon_init;

typedef enum neon_layer_type {
    NEON_CONV,
    NEON_LOCAL, /* local filtering */
    NEON_LINEAR,
    NEON_MAXPOOL,
    NEON_AVGPOOL,
    NEON_L2POOL,
    NEON_LCN
} neon_layer_type;

typedef enum neon_act { NEON_ACT_NONE, NEON_ACT_RELU, NEON_ACT_LOGISTIC, NEON_ACT_TANH } neon_act;

/** Rows, columns and channels; a vector is {1, 1, n}.  No rows: unknown, after an issue. */
typedef struct neon_shape {
    int64_t h, w, c;
} neon_shape;

typedef struct neon_layer {
    neon_layer_type type;
    const lk_recipe_node *node;
    const char *name;
    neon_shape in, out;
    int64_t kernel[2], stride;
    bool bias;
    neon_init weight, bias_begins;
    neon_act act;
} neon_layer;

/** How weights follow their gradients. */
typedef struct neon_rule {
    bool is_given;  /* as a class or map; otherwise the model's rate and momentum */
    bool adadelta;  /* otherwise gradient descent */
    bool pretrains; /* has a rate for pretraining */
    double rate, pretrain_rate;
    double momentum; /* 0: none */
    bool monotone;   /* the momentum changes from `momentum` to `saturated` with epoch `saturate` */
    double saturated;
    int64_t saturate;
    double rho, eps;
} neon_rule;

typedef enum neon_set { NEON_MNIST, NEON_CIFAR10, NEON_TOY } neon_set;

/** How neon shares the work: by tiles, by parts of the input, by samples. */
typedef enum neon_mode { NEON_NO_MODE, NEON_HALOPAR, NEON_VECPAR, NEON_DATAPAR } neon_mode;

enum { NEON_LAYERS = 1000 };

typedef struct neon_recipe {
    const char *path;
    lk_arena *arena;
    lk_status status; /* the first failure that is no issue: no memory */
    neon_remark *issues, *notes, *last_note;
    int64_t n_issues;

    const lk_recipe_node *backend;
    bool has_seed, is_double, predicts;
    int64_t seed;

    neon_set set;
    neon_shape image;
    int64_t classes;
    const char *folder, *cache;
    double share; /* of the samples; 0: all */
    neon_mode mode;
    int64_t set_batch; /* 0: the model's */
    int64_t processes; /* that share a batch */

    int64_t batch, epochs, pretrain_epochs, initial_epochs;
    double sparsity;
    bool pretrains, cross_entropy;
    neon_rule rule;
    neon_layer *layer;
    int64_t n_layers;
} neon_recipe;

/* ---- read.c: looking at the file ---- */

/** Name what cannot be converted. */
void neon_issue(neon_recipe *r, int64_t line, int64_t column, const char *fmt, ...) LK_PRINTF(4, 5);

/** Say what differs. */
void neon_note(neon_recipe *r, const char *fmt, ...) LK_PRINTF(2, 3);

/** The last name of a class without `Dist` at its end; "" if the node has none. */
const char *neon_class(neon_recipe *r, const lk_recipe_node *node);

/** Name each key that is not among the words of `known`. */
void neon_keys(neon_recipe *r, const lk_recipe_node *map, const char *what, const char *known);

/** The map of this key; NULL if there is none, or, after an issue, something else. */
const lk_recipe_node *neon_map(neon_recipe *r, const lk_recipe_node *map, const char *key);

/**
 * The value of a key, if it is there: returns whether it is and is right.  Otherwise, and after an issue,
 * `*out` stays.
 */
bool neon_whole(neon_recipe *r, const lk_recipe_node *map, const char *key, int64_t min,
                int64_t *out);
bool neon_real(neon_recipe *r, const lk_recipe_node *map, const char *key, double min, double *out);
bool neon_flag(neon_recipe *r, const lk_recipe_node *map, const char *key, bool *out);
bool neon_text(neon_recipe *r, const lk_recipe_node *map, const char *key, const char **out);
bool neon_pair(neon_recipe *r, const lk_recipe_node *map, const char *key, int64_t out[2]);

/** Name a key that must be there and is not. */
void neon_need(neon_recipe *r, const lk_recipe_node *map, const char *what, const char *key);

/* ---- the parts ---- */

/** The backend of a map: all of a recipe have one. */
void neon_take_backend(neon_recipe *r, const lk_recipe_node *map);

/** The set of an experiment. */
void neon_take_data(neon_recipe *r, const lk_recipe_node *experiment);

/** The layers of a model, with their shapes. */
void neon_take_layers(neon_recipe *r, const lk_recipe_node *model);

/** The learning rule of a model, or of its layers. */
void neon_take_rule(neon_recipe *r, const lk_recipe_node *model);

/** All of a recipe. */
void neon_take(neon_recipe *r, const lk_recipe_node *root);

/** Write the experiment of a recipe without issues. */
void neon_write(const neon_recipe *r, FILE *to);

#endif /* LK_CLI_NEON_H */
