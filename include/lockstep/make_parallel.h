/* make_parallel: a model that exists, on several devices of this process.
 *
 *     lk_make_parallel(model, "cpu:0,cpu:1", NULL, &parallel);
 *
 *     lk_tape_set_shard_size(tape, 16);                                  x [128,...] is 8 shards
 *     lk_parallel_model_forward(parallel, &(lk_pass){.tape = tape, .accumulator = sums}, x, &y);
 *     ... the loss of y, lk_backward(tape, ...), an optimizer on lk_model_params(model) ...
 *
 *              .- x[0:64]   -> [replica 0, cpu:0] -.
 *          x --+                                   +-- y -> loss        one node on the program's tape
 *              `- x[64:128] -> [replica 1, cpu:1] -'
 *
 * Each device has a replica: a thread that is bound to it and passes its slice of the batch through the
 * model, on a tape of its own.  The outputs are put one behind the other, so loss, metrics and optimizer
 * see the whole batch and stay as they were.  Backward cuts the gradient of y in the same way, and joins
 * what the replicas have added up.  There is one copy of the weights, that of the serial model: it is
 * what is saved and loaded, and what the optimizer changes.
 *
 * **Same bits.**  Outputs, and in training gradients, running statistics and the gradient of x, have the bits
 * of the serial model, on any number of devices.  (Gradients of a pass in evaluation mode have the same
 * values; those of batch norm are added up in another order then.)  For this a slice is whole shards of
 * lk_tape_set_shard_size(), dealt as data-parallel ranks get theirs, and sums are joined by the tree over the
 * shards.  keras_experiments cuts at batch / n and leaves the remainder to the last device, which gives other
 * sums; where shards are batch / n samples and n divides the batch, the slices are the same.  A tape without
 * shards is one shard, which one replica has, as the log says once; only in evaluation, where nothing is
 * summed, all devices share it.  A batch may be smaller than the number of devices, or empty.
 *
 * For a model that uses a parameter more than once (lk_model_has_weight_reuse()) each shard is a pass of
 * its own, as in a trainer; its bits are a trainer's, also on one device.  Batch norm with statistics:
 * batch takes them over all replicas.
 *
 * A replica computes with a thread for each processor of its device.  All calls here are of one thread at
 * a time, which is none of the replicas', and none is collective.  docs/guide/devices.md has more.
 */
#ifndef LK_MAKE_PARALLEL_H
#define LK_MAKE_PARALLEL_H

#include <lockstep/device.h>
#include <lockstep/dist.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>

LK_BEGIN_DECLS

/** A model or function on several devices.  The program makes it and calls it on one thread at a time; its
 * replicas have threads of their own.  Not collective. */
typedef struct lk_parallel_model lk_parallel_model;

/** The options of keras_experiments' make_parallel.  One that has no effect here says so when it is not its
 * default: as a warning to the log, and in lk_parallel_model_notes(). */
typedef struct lk_parallel_model_options {
    const char *
        ps_device; /* where outputs and gradients are put together; NULL: on the calling thread, and
                              of long gradients a part on each device */
    bool usenccl;  /* no effect: what replicas add up is joined through shared memory */
    bool initsync; /* no effect: there is one copy of the weights */
    bool syncopt;  /* lk_parallel_model_check_optimizer() refuses some optimizers */
    bool enqueue;  /* no effect: replicas read their slices where these lie */
} lk_parallel_model_options;

/** The table of lk_parallel_model_options, with its defaults: initsync is true, the others are false. */
LK_API extern const lk_descriptor lk_parallel_model_descriptor;

/**
 * A model on several devices, "cpu:0,cpu:1" as lk_device_parse() reads each, with options as
 * lk_options_parse() reads them, such as "ps_device=cpu:0 syncopt=true"; NULL: all defaults.
 *
 * With fewer than two devices `*out` runs the serial model on the calling thread, and no thread is
 * started: lk_parallel_model_is_serial().  A device may be named several times.
 *
 * `serial` is built, holds all of itself and is borrowed: it must live longer, and is not used by other
 * threads during calls here.  The caller owns `*out`, and frees it after the tapes it was run on are reset
 * or freed.
 *
 * Errors: those of lk_device_parse() and lk_options_parse(); LK_ESTATE unless the model holds all of
 * itself; LK_EINVAL for a device on which this process may not run; LK_ENOMEM.
 */
LK_API lk_status lk_make_parallel(lk_model *serial, const char *devices, const char *options,
                                  lk_parallel_model **out) LK_NODISCARD;

/** As lk_make_parallel(), for callers that have structs; both are copied.  `options` NULL: all defaults. */
LK_API lk_status lk_make_parallel_options(lk_model *serial, const lk_device *devices, int n,
                                          const lk_parallel_model_options *options,
                                          lk_parallel_model **out) LK_NODISCARD;

/** As lk_make_parallel() and its other form, but LK_EINVAL for fewer than two devices: ModelMGPU. */
LK_API lk_status lk_parallel_model_new(lk_model *serial, const char *devices, const char *options,
                                       lk_parallel_model **out) LK_NODISCARD;
LK_API lk_status lk_parallel_model_new_options(lk_model *serial, const lk_device *devices, int n,
                                               const lk_parallel_model_options *options,
                                               lk_parallel_model **out) LK_NODISCARD;

/** NULL is allowed.  A child that fork() has made may free its copy, and cannot use it: LK_ESTATE. */
LK_API void lk_parallel_model_free(lk_parallel_model *parallel);

/* ---- passes ---- */

/**
 * lk_model_forward() on all devices.  `*out` is the output of the whole batch.
 *
 * One node is recorded on pass->tape.  lk_backward() through it adds to the gradients of
 * pass->accumulator, of which statistics are added at once, as lk_model_forward() does; the loss is the
 * caller's.  Gradients of x flow on where wanted.  A second derivative cannot be taken: LK_RECORD is
 * LK_ENOTSUP.
 *
 * A replica has accumulators of its own, which are joined, so memory for gradients grows with the number
 * of devices, that for weights does not.
 *
 * Errors: those of lk_model_forward(), naming replica and device, also from lk_backward().  It can be
 * called again afterwards.  LK_ENOTSUP for pass->batch where the model needs sums over the batch: these
 * cannot be over the replicas and other ranks at once.
 */
LK_API lk_status lk_parallel_model_forward(lk_parallel_model *parallel, const lk_pass *pass,
                                           lk_var x, lk_var *out) LK_NODISCARD;

/** What the model says of x [samples, ...], in evaluation and without a tape of the program's; the caller
 * owns `*out`.  Errors: as lk_parallel_model_forward(). */
LK_API lk_status lk_parallel_model_predict(lk_parallel_model *parallel, lk_tensor *x,
                                           lk_tensor **out) LK_NODISCARD;

/* ---- functions of the program ---- */

/**
 * A pass of a function: out = f(in, shared), recorded on pass->tape.
 *
 * `in` are slices of what lk_parallel_model_apply() was given, pass->first the number of the first sample.
 * `shared` are whole on all replicas, such as weights.  `out` has room for LK_MAX_OUT values, each with as
 * many samples on its first axis as `in`; all replicas give as many.  Called on the threads of all
 * replicas at once: what `arg` points to is only read.
 */
typedef lk_status lk_parallel_fn(const lk_pass *pass, void *arg, const lk_list *in,
                                 const lk_list *shared, lk_list *out);

typedef struct lk_parallel_function {
    lk_parallel_fn *fn;
    void *arg;
    bool weight_reuse; /* it uses a shared value more than once: each shard is a pass of its own */
    bool batch_sync;   /* it communicates over pass->batch, which is NULL where a replica has all */
} lk_parallel_function;

/** As lk_make_parallel(), for a function of the program; fn->arg is borrowed. */
LK_API lk_status lk_make_parallel_fn(const lk_parallel_function *fn, const char *devices,
                                     const char *options, lk_parallel_model **out) LK_NODISCARD;

/**
 * Apply the function: `x` are cut along their first axis, of which all have as many; `shared` go to all
 * replicas.  Fills `out`.
 *
 * Gradients of `shared` are joined by the tree over the shards, and flow on along the program's tape: leaves
 * of its own (lk_leaf(), lk_slab_tensor()) get theirs.  pass->accumulator is NULL.
 *
 * Errors: those of the function, naming replica and device; LK_EINVAL for a model, without x, and for
 * outputs that do not fit together; LK_ESHAPE; LK_EDTYPE for shared values of several dtypes that need
 * gradients; LK_ENOMEM.
 */
LK_API lk_status lk_parallel_model_apply(lk_parallel_model *parallel, const lk_pass *pass,
                                         const lk_list *x, const lk_list *shared,
                                         lk_list *out) LK_NODISCARD;

/* ---- looking ---- */

/** Whether there are fewer than two devices, so that the calling thread runs the serial model. */
LK_API bool lk_parallel_model_is_serial(const lk_parallel_model *parallel);

/** The model it was made of, whose weights are used and saved; NULL for a function.  Borrowed. */
LK_API lk_model *lk_parallel_model_serial(const lk_parallel_model *parallel);

/** How many devices there are, and number `i`, NULL if there is no such.  Borrowed. */
LK_API int lk_parallel_model_devices(const lk_parallel_model *parallel);
LK_API const lk_device *lk_parallel_model_device(const lk_parallel_model *parallel, int i);

/** The samples of a batch that device `i` gets in training, where a shard has `shard_size` of them (0: all
 * are one shard). */
LK_API lk_range lk_parallel_model_slice(const lk_parallel_model *parallel, int64_t samples,
                                        int64_t shard_size, int i);

/** Sentences about options that have no effect here, a line each; "" if there are none.  Borrowed. */
LK_API const char *lk_parallel_model_notes(const lk_parallel_model *parallel);

/** Whether the model may be trained with this optimizer: with syncopt LK_EINVAL for one that cannot update
 * parameters in parts, as keras_experiments takes only its own then.  The code that makes the optimizer calls
 * it once. */
LK_API lk_status lk_parallel_model_check_optimizer(const lk_parallel_model *parallel,
                                                   const lk_optimizer *optimizer) LK_NODISCARD;

/** A summary for people: devices with their slices of a batch of `samples` in shards of `shard_size`, the
 * layers, and the parameters, once.  Written to `buf` of `size` bytes, cut if it does not fit; returns how
 * many bytes it has without the end, as snprintf() does. */
LK_API int64_t lk_parallel_model_summary(const lk_parallel_model *parallel, int64_t samples,
                                         int64_t shard_size, char *buf, size_t size);

LK_END_DECLS

#endif /* LK_MAKE_PARALLEL_H */
