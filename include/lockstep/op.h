/* Ops: what a tape can record.
 *
 * An op is one constant descriptor: `src/ops/softmax.c` defines `lk__op_softmax`, which programs find
 * by the name "softmax".  The build collects every descriptor of that folder, so a file is all it
 * takes to be listed (`lockstep list ops`) and checked (`lockstep gradcheck`).  A program registers
 * its own with lk_op_register(), or just passes them to lk_apply().
 *
 * An op computes in `forward`, on tensors.  `backward` computes nothing itself: it applies other ops
 * to variables.  So when backward is recorded, it can be differentiated again.
 */
#ifndef LK_OP_H
#define LK_OP_H

#include <lockstep/autograd.h>

LK_BEGIN_DECLS

enum { LK_MAX_OUT = 4 };

#define LK_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/** An op: a constant, which any thread may read.  Tapes call its functions, on the tape's thread. */
typedef struct lk_op lk_op;

/** One application of an op.  Fields are to be read. */
typedef struct lk_call {
    lk_tape *tape;
    const lk_op *op;
    const void *attr; /* the op's attributes, `attr_size` bytes */
    int n_in, n_out;
    const lk_var *in;          /* the inputs */
    const lk_var *out;         /* the outputs; in backward only */
    const lk_tensor *const *x; /* the inputs as tensors; in infer and forward only */
    lk_tensor *const *y;       /* the outputs as tensors, to be written; in forward only */
    bool accumulate;           /* in forward: y[0] = y[0] + result; only with LK_OP_ACCUMULATES */
    bool overwrite;            /* in forward: y[0] = 0 + result; only with LK_OP_OVERWRITES */
} lk_call;

/**
 * What an output will be.  `infer` fills in dtype and shape.  For a view of input `view_of` it also
 * sets `is_view`, strides and offset (elements from that input's first).  Forward is not called when
 * all outputs are views.
 */
typedef struct lk_output_spec {
    lk_dtype dtype;
    lk_shape shape;
    bool is_view;
    int view_of;
    int64_t stride[LK_MAX_NDIM], offset;
} lk_output_spec;

enum {
    LK_OP_LINEAR = 1,      /* linear in all its real inputs together: gradcheck tests the adjoint */
    LK_OP_FIRST_ORDER = 2, /* its backward cannot be recorded */
    LK_OP_COLLECTIVE = 4,  /* communicates: always recorded, and always run by backward */
    LK_OP_STRIDED = 8, /* forward takes inputs with any strides; otherwise they are contiguous */
    LK_OP_ACCUMULATES =
        16,               /* no output is a view, and forward can add the first to what is there */
    LK_OP_OVERWRITES = 32 /* no output is a view, and forward can set the first to 0 + result */
};

/* ---- samples: inputs that an op is checked on ---- */

typedef enum lk_op_sample_kind {
    LK_SAMPLE_REAL,  /* f64, distinct values spread over (lo, hi), in random order */
    LK_SAMPLE_INDEX, /* i64, random integers lo <= i < hi */
    LK_SAMPLE_FIXED  /* f64, random in (lo, hi), and no gradient is taken: a mask, a constant */
} lk_op_sample_kind;

typedef struct lk_op_sample_input {
    lk_shape shape;
    double lo, hi; /* both 0: -1 and 1 */
    lk_op_sample_kind kind;
} lk_op_sample_input;

/* Inputs by shape: LK_IN(2, 3); with a range: LK_IN_RANGE(0.1, 2, 2, 3); indices below n:
 * LK_IN_INDEX(n, 5); without a gradient: LK_IN_FIXED(0, 1, 2, 3). */
#define LK_IN(...)                    \
    {                                 \
        .shape = LK_DIMS(__VA_ARGS__) \
    }
#define LK_IN_RANGE(from, to, ...)                              \
    {                                                           \
        .shape = LK_DIMS(__VA_ARGS__), .lo = (from), .hi = (to) \
    }
#define LK_IN_INDEX(n, ...)                                                        \
    {                                                                              \
        .shape = LK_DIMS(__VA_ARGS__), .lo = 0, .hi = (n), .kind = LK_SAMPLE_INDEX \
    }
#define LK_IN_FIXED(from, to, ...)                                                       \
    {                                                                                    \
        .shape = LK_DIMS(__VA_ARGS__), .lo = (from), .hi = (to), .kind = LK_SAMPLE_FIXED \
    }

enum { LK_SAMPLE_MAX_IN = 6 };

/** One set of inputs.  A table of them ends with one whose `n_in` is 0. */
typedef struct lk_op_sample {
    int n_in;
    lk_op_sample_input in[LK_SAMPLE_MAX_IN];
    const void *attr;
    int64_t shard_size; /* lk_tape_set_shard_size() */
} lk_op_sample;

struct lk_op {
    const char *name;    /* equals the file name without suffix */
    const char *summary; /* one line: the formula */
    int min_in, max_in;  /* inputs; max_in may be as large as you like */
    int n_out;           /* 1 to LK_MAX_OUT */
    unsigned flags;
    size_t attr_size; /* of the struct that `attr` points to; plain bytes, copied by the tape */

    /* Inputs whose elements backward reads, as bits; ~0u for all, the only way to name those from
     * number 32 on.  Backward refuses if such an input was changed in place. */
    unsigned saves_in;

    /** Check inputs and attributes, and say what the outputs are.  Reads no elements. */
    lk_status (*infer)(lk_call *call, lk_output_spec *out);

    /** Compute the outputs.  NULL if all are views. */
    lk_status (*forward)(lk_call *call);

    /**
     * din[i] = gradient with respect to input i, of its dtype and shape, for those i for which
     * lk_call_needs_grad(call, i).  dout[j] is LK_NO_VAR when no gradient reached output j (not for all j,
     * and never if there is one output or the op is collective); lk_zeros_like() helps.  It may be
     * dout itself or any other value.  NULL: the outputs are constants.
     */
    lk_status (*backward)(lk_call *call, const lk_var *dout, lk_var *din);

    const lk_op_sample *samples;

    /* What functions that several ops have in common must know of this one; tapes do not read it. */
    const void *data;
};

/**
 * Apply `op` to n_in values of `tape` and record it; out[0..op->n_out) are its outputs.
 *
 * Collective if the op is.  `attr` points to op->attr_size bytes, which are copied.
 *
 * Errors: LK_EINVAL (number of inputs, values of another tape, attributes), LK_ESHAPE, LK_EDTYPE,
 * LK_ESTATE for a value that is no longer valid, LK_ENOMEM, and the op's own.
 */
LK_API lk_status lk_apply(lk_tape *tape, const lk_op *op, const lk_var *in, int n_in,
                          const void *attr, lk_var *out) LK_NODISCARD;

/**
 * In backward: as lk_apply(), where out[0] is all that this call gives to the gradient of input
 * `i`.  If that is a leaf that no other op has a gradient for, an op with LK_OP_ACCUMULATES adds to the
 * leaf's gradient in place, and one with LK_OP_OVERWRITES sets a gradient that is not set yet, with the same
 * bits.  If it is a postponed leaf, the op is run by lk_backward_rest(), unless it has no inputs or several
 * outputs, or communicates.  out[0] is then LK_NO_VAR.
 */
LK_API lk_status lk_apply_gradient(const lk_call *call, int i, const lk_op *op, const lk_var *in,
                                   int n_in, const void *attr, lk_var *out) LK_NODISCARD;

/** In backward: whether the gradient of input `i` is wanted. */
LK_API bool lk_call_needs_grad(const lk_call *call, int i);

/** Zeros of the dtype and shape of `v`; their memory is one element.  Errors: LK_ESTATE, LK_ENOMEM. */
LK_API lk_status lk_zeros_like(lk_var v, lk_var *out) LK_NODISCARD;

/** In forward: `bytes` bytes, aligned to LK_ALIGN, until the call ends.  Errors: LK_ENOMEM. */
LK_API lk_status lk_call_scratch(lk_call *call, int64_t bytes, void *out) LK_NODISCARD;

/**
 * In forward: an object that is costly to make, such as a plan, kept by the tape over resets.
 *
 * `key` are `key_size` bytes that say which, at most 512; if there is none, `make` makes it from the
 * key.  The tape keeps the 512 used last and frees others with `free`.
 *
 * Errors: those of `make`, LK_ENOMEM.
 */
LK_API lk_status lk_call_plan(lk_call *call, const void *key, size_t key_size,
                              lk_status (*make)(const void *key, void **out),
                              void (*free)(void *plan), void **out) LK_NODISCARD;

/** Dtype and shape of a value; LK_F32 and LK_SCALAR if it is not valid. */
LK_API lk_dtype lk_dtype_of(lk_var v);
LK_API lk_shape lk_shape_of(lk_var v);

/* ---- by name ---- */

/** The ops that are built in, sorted by name, then NULL. */
LK_API extern const lk_op *const lk_ops[];

/** Find an op by name, built in or registered.  Errors: LK_EINVAL, suggesting a similar one. */
LK_API lk_status lk_op_find(const char *name, const lk_op **out) LK_NODISCARD;

/**
 * Make an op of the program's own known by its name.  `op` must live as long as the process.
 *
 * Thread safe.  Errors: LK_EINVAL for an incomplete descriptor and a name in use; LK_ENOMEM.
 */
LK_API lk_status lk_op_register(const lk_op *op) LK_NODISCARD;

LK_END_DECLS

#endif /* LK_OP_H */
