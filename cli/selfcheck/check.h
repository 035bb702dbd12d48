/* One check of `lockstep selfcheck`: a kernel, the cases it is run on, and what must come out.
 *
 * Files of cli/selfcheck/checks/ define `const lk__check lk__check_<name>`, one or several that are alike; the
 * build collects them into lk__checks[].  Every case is computed
 *
 *   in every configuration  instruction set x threads x way of splitting the work; the outputs
 *                           must be equal in every bit, and nothing beside them may be written
 *   by definition           a plain loop (kernel/reference/) gives the bits that must come out, and
 *                           each value in higher precision with the error that is allowed
 *
 * The inputs depend on the seed, the check's name, the case and the operand only.
 */
#ifndef LK_CLI_CHECK_H
#define LK_CLI_CHECK_H

#include <lockstep/dtype.h>

#include <stddef.h>

enum {
    CHECK_MAX_INPUTS = 6,
    CHECK_MAX_OUTPUTS = 3,
    CHECK_MAX_WAYS = 3,
    CHECK_LABEL = 128,
};

/* An array of a case. */
typedef struct check_array {
    lk_dtype dtype;
    int64_t n;
    void *data;
} check_array;

typedef struct lk__check lk__check;
struct lk__ref_value; /* kernel/reference/reference.h */
struct lk_tree;       /* lockstep/extra/reduce.h */

/* A case: made by the check's `setup`. */
typedef struct check_case {
    const lk__check *check;
    int index; /* of the check's cases */
    lk_dtype dtype;
    uint64_t seed;
    char label[CHECK_LABEL]; /* the shape, for messages */
    check_array in[CHECK_MAX_INPUTS];
    check_array out[CHECK_MAX_OUTPUTS]; /* `data` is what the outputs hold before, or NULL: junk */
    int n_in, n_out;
    unsigned ways; /* bit w is set if way w applies; bit 0 always */
} check_case;

/* What must come out of a case, for each output: both have as many elements as the output. */
typedef struct check_truth {
    void *bits[CHECK_MAX_OUTPUTS];    /* in the output's dtype; begins as the output does */
    bool has_bits[CHECK_MAX_OUTPUTS]; /* set by `expect` for what it fills in */
    /* Claims nothing at first; NULL where the output is neither f32 nor f64. */
    struct lk__ref_value *value[CHECK_MAX_OUTPUTS];
} check_truth;

struct lk__check {
    const char *name, *summary;
    int n_cases;
    bool untyped;                     /* run once, not for f32 and f64 */
    const char *ways[CHECK_MAX_WAYS]; /* ways to split the work; the first is "whole" */
    /* Describe case c->index: label, inputs by check_input(), outputs by check_output(), ways. */
    lk_status (*setup)(check_case *c);
    /* Compute the outputs into `out`. */
    lk_status (*run)(const check_case *c, int way, void *const *out);
    /* The same by definition. */
    lk_status (*expect)(const check_case *c, check_truth *truth);
    const void *data; /* for functions that checks share: what this one is of */
};

/** All checks, sorted by name, NULL-terminated. */
extern const lk__check *const lk__checks[];

/** Add an input of `n` elements, uniform in [lo, hi); for integers whole numbers. */
lk_status check_input(check_case *c, lk_dtype dtype, int64_t n, double lo, double hi) LK_NODISCARD;

/** Add an output of `n` elements.  With `filled`, it begins as an input does, in [-1, 1). */
lk_status check_output(check_case *c, lk_dtype dtype, int64_t n, bool filled) LK_NODISCARD;

/** Release the arrays of a case. */
void check_case_free(check_case *c);

/** 64 random bits for a case: operand `which`, element `i`. */
uint64_t check_random(const check_case *c, int which, int64_t i);

/** Address of element `i`, given as `base + i * sizeof(dtype)`. */
static inline void *check_at(lk_dtype dtype, const void *base, int64_t i)
{
    return (char *)(uintptr_t)base + i * (int64_t)lk_dtype_size(dtype);
}

/** Element `i` of an array as a double, and back; f16 and bf16 as their bits. */
double check_get(lk_dtype dtype, const void *base, int64_t i);
void check_set(lk_dtype dtype, void *base, int64_t i, double v);

/** Push all pieces of the first output, each computed in a call of its own into `piece`, as ranks would. */
typedef lk_status check_push(const check_case *c, struct lk_tree *tree, void *piece);

/** Join what `push` pushes by the tree. */
lk_status check_join(const check_case *c, check_push *push, void *out) LK_NODISCARD;

/* The outputs of one run of a case, with guards around them. */
typedef struct check_buffer {
    void *block[CHECK_MAX_OUTPUTS]; /* as allocated, guards included */
    void *out[CHECK_MAX_OUTPUTS];
} check_buffer;

lk_status check_buffer_new(const check_case *c, check_buffer *b) LK_NODISCARD;
void check_buffer_free(check_buffer *b);

/** Give the outputs their first contents and the guards their pattern. */
void check_buffer_reset(const check_case *c, check_buffer *b);

/** Replace every NaN by one and the same: which NaN comes out is not defined. */
void check_buffer_settle(const check_case *c, check_buffer *b);

/** The number of the first output with a guard that was written to, or -1. */
int check_buffer_spill(const check_case *c, const check_buffer *b);

/** Find the first difference between outputs `o`; false if there is none. */
bool check_differ(const check_case *c, int o, const void *a, const void *b, int64_t *at);

#endif /* LK_CLI_CHECK_H */
