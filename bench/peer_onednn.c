/* oneDNN as a peer: direct convolution on channels-last tensors, and matrix products.
 *
 * The weights are given as [kernel...][in][out].  Where the primitive wants them otherwise, a job
 * reorders them each time it runs, because in training they have changed.
 */
#include "peer.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 2, MAX_ARGS = 4, MAX_MEMORIES = 5 };

/* A primitive with its operands. */
struct step {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arg[MAX_ARGS];
    int n_args;
};

struct lk__peer_job {
    struct step step[MAX_STEPS]; /* run in this order */
    int n_steps;
    dnnl_memory_t memory[MAX_MEMORIES]; /* to be destroyed */
    int n_memories;
    char about[64];
};

/* An operand as the caller stores it, and the argument it is to the primitive. */
struct operand {
    const dnnl_memory_desc_t *stored;
    const void *data;
    int arg;
    dnnl_query_t query; /* what to ask the primitive for its layout; 0: as stored */
    bool output;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static bool started(void)
{
    return (engine || dnnl_engine_create(&engine, dnnl_cpu, 0) == dnnl_success) &&
           (stream ||
            dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) == dnnl_success);
}

static const char *onednn_about(void)
{
    static char text[128];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

/* The best that it may dispatch to; an instruction set has the bits of those that it includes. */
static const char *onednn_path(void)
{
    static const struct {
        dnnl_cpu_isa_t has;
        const char *name;
    } paths[] = {
        {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        {dnnl_cpu_isa_avx512_core, "avx512_core"},
        {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
        {dnnl_cpu_isa_avx2, "avx2"},
        {dnnl_cpu_isa_avx, "avx"},
        {dnnl_cpu_isa_sse41, "sse41"},
    };
    unsigned effective = dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if ((effective & paths[i].has) == (unsigned)paths[i].has)
            return paths[i].name;
    return "";
}

static void onednn_threads(int n)
{
    /* The library's OpenMP runtime is whichever it was linked with. */
    void (*set)(int);
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&set, &symbol, sizeof set);
    if (symbol)
        set(n);
}

static void onednn_free(lk__peer_job *job)
{
    if (!job)
        return;
    for (int i = 0; i < job->n_steps; i++)
        dnnl_primitive_destroy(job->step[i].primitive);
    for (int i = 0; i < job->n_memories; i++)
        dnnl_memory_destroy(job->memory[i]);
    free(job);
}

static bool onednn_run(lk__peer_job *job)
{
    for (int i = 0; i < job->n_steps; i++) {
        const struct step *s = &job->step[i];
        if (dnnl_primitive_execute(s->primitive, stream, s->n_args, s->arg) != dnnl_success)
            return false;
    }
    return dnnl_stream_wait(stream) == dnnl_success;
}

static const char *onednn_job_about(const lk__peer_job *job)
{
    return job->about;
}

/* A memory object that the job destroys; NULL on failure.  `data` NULL: allocated by oneDNN. */
static dnnl_memory_t add_memory(lk__peer_job *job, const dnnl_memory_desc_t *desc, const void *data)
{
    dnnl_memory_t m;
    void *handle = DNNL_MEMORY_ALLOCATE;
    if (data)
        memcpy(&handle, &data, sizeof handle);
    if (dnnl_memory_create(&m, desc, engine, handle) != dnnl_success)
        return NULL;
    return job->memory[job->n_memories++] = m;
}

static bool add_reorder(lk__peer_job *job, dnnl_memory_t from, dnnl_memory_t to)
{
    const dnnl_memory_desc_t *source, *target;
    dnnl_primitive_desc_t pd;
    struct step *s = &job->step[job->n_steps];
    if (dnnl_memory_get_memory_desc(from, &source) != dnnl_success ||
        dnnl_memory_get_memory_desc(to, &target) != dnnl_success ||
        dnnl_reorder_primitive_desc_create(&pd, source, engine, target, engine, NULL) !=
            dnnl_success)
        return false;
    bool ok = dnnl_primitive_create(&s->primitive, pd) == dnnl_success;
    dnnl_primitive_desc_destroy(pd);
    if (!ok)
        return false;
    s->arg[0] = (dnnl_exec_arg_t){DNNL_ARG_FROM, from};
    s->arg[1] = (dnnl_exec_arg_t){DNNL_ARG_TO, to};
    s->n_args = 2;
    job->n_steps++;
    return true;
}

/* Fill `job` with the primitive of `pd` and the reorders it needs. */
static bool build(lk__peer_job *job, dnnl_primitive_desc_t pd, const struct operand *op, int n)
{
    struct step main_step = {.n_args = n};
    dnnl_memory_t from = NULL, to = NULL;
    for (int i = 0; i < n; i++) {
        dnnl_memory_t given = add_memory(job, op[i].stored, op[i].data), used = given;
        const dnnl_memory_desc_t *wanted = op[i].query
                                               ? dnnl_primitive_desc_query_md(pd, op[i].query, 0)
                                               : op[i].stored;
        if (!given || !wanted)
            return false;
        if (!dnnl_memory_desc_equal(wanted, op[i].stored)) {
            used = add_memory(job, wanted, NULL);
            if (!used)
                return false;
            from = op[i].output ? used : given;
            to = op[i].output ? given : used;
            if (!op[i].output && !add_reorder(job, from, to))
                return false;
        }
        main_step.arg[i] = (dnnl_exec_arg_t){op[i].arg, used};
    }
    if (dnnl_primitive_create(&main_step.primitive, pd) != dnnl_success)
        return false;
    bool reorder_result = from && job->n_steps == 0;
    job->step[job->n_steps++] = main_step;
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    snprintf(job->about, sizeof job->about, "%s%s", name, from ? " + reorder" : "");
    return !reorder_result || add_reorder(job, from, to);
}

/* Make the job of a primitive descriptor, which is consumed. */
static lk__peer_job *job_new(dnnl_primitive_desc_t pd, const struct operand *op, int n,
                             const char **why)
{
    lk__peer_job *job = calloc(1, sizeof *job);
    bool ok = job && build(job, pd, op, n);
    dnnl_primitive_desc_destroy(pd);
    if (ok)
        return job;
    *why = "oneDNN cannot set up the primitive";
    onednn_free(job);
    return NULL;
}

static lk__peer_job *onednn_gemm_new(const lk_gemm *g, const void *a, const void *b, void *c,
                                     const char **why)
{
    *why = "oneDNN computes in f32 only";
    if (g->dtype != LK_F32 || !started())
        return NULL;
    dnnl_memory_desc_t ma, mb, mc;
    dnnl_dims_t da = {g->m, g->k}, db = {g->k, g->n}, dc = {g->m, g->n};
    dnnl_dims_t sa = {g->trans_a ? 1 : g->lda, g->trans_a ? g->lda : 1};
    dnnl_dims_t sb = {g->trans_b ? 1 : g->ldb, g->trans_b ? g->ldb : 1}, sc = {g->ldc, 1};
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    if (dnnl_memory_desc_init_by_strides(&ma, 2, da, dnnl_f32, sa) != dnnl_success ||
        dnnl_memory_desc_init_by_strides(&mb, 2, db, dnnl_f32, sb) != dnnl_success ||
        dnnl_memory_desc_init_by_strides(&mc, 2, dc, dnnl_f32, sc) != dnnl_success ||
        dnnl_matmul_desc_init(&desc, &ma, &mb, NULL, &mc) != dnnl_success ||
        dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL) != dnnl_success) {
        *why = "oneDNN has no such matmul";
        return NULL;
    }
    const struct operand op[] = {
        {&ma, a, DNNL_ARG_SRC, 0, false},
        {&mb, b, DNNL_ARG_WEIGHTS, 0, false},
        {&mc, c, DNNL_ARG_DST, 0, true},
    };
    return job_new(pd, op, 3, why);
}

/* Tensors of a convolution: layouts as stored, and the weights' as oneDNN may choose. */
struct tensors {
    dnnl_memory_desc_t x, y, w, bias, w_any;
    dnnl_dims_t stride, pad_lo, pad_hi;
};

static bool describe(const lk__peer_conv *c, struct tensors *t)
{
    const lk_conv_shape *s = c->shape;
    dnnl_dims_t dx = {s->batch, s->in_channels, s->in[0], s->in[1]};
    dnnl_dims_t dy = {s->batch, s->out_channels, s->out[0], s->out[1]};
    dnnl_dims_t dw = {s->out_channels, s->in_channels, s->window.kernel[0], s->window.kernel[1]};
    dnnl_dims_t db = {s->out_channels};
    for (int i = 0; i < 2; i++) {
        t->stride[i] = s->window.stride[i];
        t->pad_lo[i] = s->window.pad_lo[i];
        t->pad_hi[i] = (s->out[i] - 1) * s->window.stride[i] + s->window.kernel[i] - s->in[i] -
                       s->window.pad_lo[i];
        if (t->pad_hi[i] < 0)
            t->pad_hi[i] = 0;
    }
    return dnnl_memory_desc_init_by_tag(&t->x, 4, dx, dnnl_f32, dnnl_nhwc) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&t->y, 4, dy, dnnl_f32, dnnl_nhwc) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&t->w, 4, dw, dnnl_f32, dnnl_hwio) == dnnl_success &&
           dnnl_memory_desc_init_by_tag(&t->w_any, 4, dw, dnnl_f32, dnnl_format_tag_any) ==
               dnnl_success &&
           dnnl_memory_desc_init_by_tag(&t->bias, 1, db, dnnl_f32, dnnl_x) == dnnl_success;
}

/* The primitive descriptor of the pass; backward passes need the forward one as a hint. */
static bool conv_primitive(const lk__peer_conv *c, const struct tensors *t,
                           dnnl_primitive_desc_t *pd)
{
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t forward;
    if (dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_direct,
                                           &t->x, &t->w_any, c->bias ? &t->bias : NULL, &t->y,
                                           t->stride, t->pad_lo, t->pad_hi) != dnnl_success ||
        dnnl_primitive_desc_create(&forward, &desc, NULL, engine, NULL) != dnnl_success)
        return false;
    if (c->pass == LK_PEER_FORWARD) {
        *pd = forward;
        return true;
    }
    dnnl_status_t st;
    if (c->pass == LK_PEER_BACKWARD_DATA)
        st = dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &t->x,
                                                      &t->w_any, &t->y, t->stride, t->pad_lo,
                                                      t->pad_hi);
    else
        st = dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &t->x,
                                                         &t->w_any, NULL, &t->y, t->stride,
                                                         t->pad_lo, t->pad_hi);
    bool ok = st == dnnl_success &&
              dnnl_primitive_desc_create(pd, &desc, NULL, engine, forward) == dnnl_success;
    dnnl_primitive_desc_destroy(forward);
    return ok;
}

static lk__peer_job *onednn_conv_new(const lk__peer_conv *c, const char **why)
{
    *why = "oneDNN computes in f32 only";
    if (c->shape->dtype != LK_F32 || !started())
        return NULL;
    struct tensors t;
    dnnl_primitive_desc_t pd;
    if (!describe(c, &t) || !conv_primitive(c, &t, &pd)) {
        *why = "oneDNN has no such direct convolution";
        return NULL;
    }
    const struct operand forward[] = {
        {&t.x, c->x, DNNL_ARG_SRC, 0, false},
        {&t.w, c->w, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, false},
        {&t.y, c->y, DNNL_ARG_DST, 0, true},
        {&t.bias, c->bias, DNNL_ARG_BIAS, 0, false},
    };
    const struct operand data[] = {
        {&t.x, c->x, DNNL_ARG_DIFF_SRC, 0, true},
        {&t.w, c->w, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, false},
        {&t.y, c->y, DNNL_ARG_DIFF_DST, 0, false},
    };
    const struct operand weights[] = {
        {&t.x, c->x, DNNL_ARG_SRC, 0, false},
        {&t.w, c->w, DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, true},
        {&t.y, c->y, DNNL_ARG_DIFF_DST, 0, false},
    };
    switch (c->pass) {
    case LK_PEER_FORWARD: return job_new(pd, forward, c->bias ? 4 : 3, why);
    case LK_PEER_BACKWARD_DATA: return job_new(pd, data, 3, why);
    default: return job_new(pd, weights, 3, why);
    }
}

LK_API extern const lk__peer lk__peer_onednn;
const lk__peer lk__peer_onednn = {
    .interface = LK_PEER_INTERFACE,
    .name = "onednn",
    .about = onednn_about,
    .path = onednn_path,
    .set_threads = onednn_threads,
    .gemm_new = onednn_gemm_new,
    .conv_new = onednn_conv_new,
    .job_about = onednn_job_about,
    .job_run = onednn_run,
    .job_free = onednn_free,
};
