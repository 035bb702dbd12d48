/* A program on ranks, and whether it gives what the reference does. */
#include "segments.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/ops.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct program_calls program_calls = {
    .allreduce = lk_dist_allreduce, .send = lk_dist_send, .recv = lk_dist_recv};

/* One rank while it runs. */
struct rank {
    const struct program *p;
    const struct program_calls *calls;
    int rank; /* of the world */
    lk_tape *tape;
    lk_comm *comm[MAX_COMMS];
    lk_var var[MAX_VALUES], handle[2 * MAX_MESSAGES]; /* of sends and receives */
    lk_tensor *input[MAX_VALUES], *grad[MAX_VALUES];
    struct program_segment segment[MAX_INSTRUCTIONS][2];
    struct outcome out;
};

/* ---- messages ---- */

/* The rank in the message's communicator of a rank of the world. */
static int number(const struct program *p, const struct message *m, int rank)
{
    int member[MAX_RANKS], own = 0;
    program_members(p, m->comm, rank, member, &own);
    return own;
}

/* What is sent: the value, or one element of it in a large vector. */
static lk_status outgoing(struct rank *s, const struct message *m, lk_var *x)
{
    *x = s->var[m->value];
    if (!m->large)
        return LK_OK;
    int at = m->pick % s->p->value[m->value].length;
    LK_TRY(lk_slice(*x, 0, at, at + 1, 1, x));
    return LK_TRACE(lk_broadcast(*x, LK_SHAPE(LARGE_LENGTH), x));
}

static lk_status incoming(struct rank *s, const struct message *m, lk_var x)
{
    if (m->large)
        LK_TRY(lk_slice(x, 0, m->pick, m->pick + 1, 1, &x));
    s->var[m->got] = x;
    return LK_OK;
}

static lk_shape shape_of(const struct program *p, const struct message *m)
{
    return m->large ? LK_SHAPE(LARGE_LENGTH) : LK_SHAPE(p->value[m->value].length);
}

static lk_status post(struct rank *s, const struct instruction *n)
{
    const struct message *m = &s->p->message[n->message];
    lk_comm *comm = s->comm[m->comm];
    lk_dtype dtype = s->p->value[m->value].integer ? LK_I64 : LK_F64;
    int dest = number(s->p, m, m->dest),
        source = m->any_rank ? LK_ANY_RANK : number(s->p, m, m->source);
    int64_t tag = m->any_tag ? LK_ANY_TAG : m->tag;
    lk_var x;
    if (n->kind == SEND || n->kind == ISEND)
        LK_TRY(outgoing(s, m, &x));
    switch (n->kind) {
    case SEND: LK_TRY(s->calls->send(comm, x, dest, m->tag, "m", NULL)); break;
    case ISEND:
        LK_TRY(lk_dist_isend(comm, x, dest, m->tag, "m", &s->handle[2 * n->message]));
        break;
    case IRECV:
        LK_TRY(lk_dist_irecv(s->tape, comm, source, tag, dtype, shape_of(s->p, m), "m",
                             &s->handle[2 * n->message + 1]));
        break;
    default:
        LK_TRY(s->calls->recv(s->tape, comm, source, tag, dtype, shape_of(s->p, m), "m", &x));
        LK_TRY(incoming(s, m, x));
        break;
    }
    return LK_OK;
}

static lk_status wait_all(struct rank *s, const struct instruction *n)
{
    lk_var handle[MAX_WAITS], got;
    int which;
    for (int i = 0; i < n->n_waits; i++)
        handle[i] = s->p->dropped[s->p->message[n->wait[i] / 2].group] ? LK_NO_VAR
                                                                       : s->handle[n->wait[i]];
    for (;;) {
        LK_TRY(lk_dist_waitany(handle, n->n_waits, &which, &got));
        if (which < 0)
            return LK_OK;
        handle[which] = LK_NO_VAR;
        if (n->wait[which] % 2)
            LK_TRY(incoming(s, &s->p->message[n->wait[which] / 2], got));
    }
}

static lk_status receive_all(struct rank *s, const struct instruction *n)
{
    lk_var *out = &s->var[n->out[0]], x;
    for (int i = 0; i < n->n_waits; i++) {
        const struct message *m = &s->p->message[n->wait[i]];
        LK_TRY(s->calls->recv(s->tape, s->comm[m->comm], LK_ANY_RANK,
                              m->any_tag ? LK_ANY_TAG : m->tag, LK_F64, shape_of(s->p, m), "pool",
                              &x));
        if (i == 0)
            *out = x;
        else
            LK_TRY(lk_add(*out, x, out));
    }
    return LK_OK;
}

/* ---- collectives ---- */

static lk_status shift(struct rank *s, const struct instruction *n, lk_comm *comm, lk_var x,
                       lk_var *out)
{
    int size = lk_comm_size(comm), to = lk_comm_rank(comm) + n->root,
        from = lk_comm_rank(comm) - n->root, v = n->out[s->rank];
    lk_dist_send_arg send = {.x = x,
                             .rank = to < size     ? to
                                     : n->periodic ? to - size
                                                   : -1,
                             .tag = 5};
    lk_dist_recv_arg recv = {.rank = from >= 0     ? from
                                     : n->periodic ? from + size
                                                   : -1,
                             .tag = 5,
                             .dtype = lk_dtype_of(x),
                             .shape = LK_SHAPE(v >= 0 ? s->p->value[v].length : 0)};
    return LK_TRACE(lk_dist_sendrecv(s->tape, comm, &send, &recv, "shift", out));
}

static lk_status collective(struct rank *s, const struct instruction *n)
{
    lk_comm *comm = s->comm[n->comm];
    lk_var x = s->var[n->in[s->rank]], out = LK_NO_VAR;
    int v = n->out[s->rank], length = v >= 0 ? s->p->value[v].length : 0;
    switch (n->kind) {
    case ALLREDUCE: LK_TRY(s->calls->allreduce(comm, x, n->fold, "c", &out)); break;
    case REDUCE: LK_TRY(lk_dist_reduce(comm, x, n->fold, n->root, "c", &out)); break;
    case BCAST: LK_TRY(lk_dist_bcast(comm, x, n->root, "c", &out)); break;
    case ALLGATHER: LK_TRY(lk_dist_allgather(comm, x, 0, "c", &out)); break;
    case GATHER: LK_TRY(lk_dist_gather(comm, x, 0, n->root, "c", &out)); break;
    case REDUCE_SCATTER: LK_TRY(lk_dist_reduce_scatter(comm, x, 0, length, "c", &out)); break;
    case SCATTER: LK_TRY(lk_dist_scatter(comm, x, 0, length, n->root, "c", &out)); break;
    case ALLTOALL: LK_TRY(lk_dist_alltoall(comm, x, 0, 0, length, "c", &out)); break;
    default: LK_TRY(shift(s, n, comm, x, &out)); break;
    }
    if (v >= 0)
        s->var[v] = out;
    return LK_OK;
}

static lk_status segments(struct rank *s, const struct instruction *n)
{
    int64_t at = n - s->p->instruction;
    s->segment[at][0] = (struct program_segment){.p = s->p,
                                                 .n = n,
                                                 .tape = s->tape,
                                                 .comm = s->comm[0],
                                                 .x = s->var[n->in[s->rank]],
                                                 .tag = 20000 + at};
    return LK_TRACE(program_segment_run(s->segment[at], &s->var[n->out[s->rank]]));
}

/* ---- one rank ---- */

static lk_status instruction(struct rank *s, const struct instruction *n)
{
    switch (n->kind) {
    case ALLREDUCE:
    case REDUCE:
    case BCAST:
    case ALLGATHER:
    case GATHER:
    case REDUCE_SCATTER:
    case SCATTER:
    case ALLTOALL:
    case SENDRECV:
        if (n->in[s->rank] >= 0)
            LK_TRY(collective(s, n));
        return LK_OK;
    case SEGMENTS:
        if (n->in[s->rank] >= 0)
            LK_TRY(segments(s, n));
        return LK_OK;
    case BARRIER:
        if (s->p->color[n->comm][s->rank] == s->p->color[n->comm][n->root])
            LK_TRY(lk_dist_barrier(s->tape, s->comm[n->comm], "b"));
        return LK_OK;
    default: break;
    }
    if (n->rank != s->rank)
        return LK_OK;
    switch (n->kind) {
    case SEND:
    case RECV:
    case ISEND:
    case IRECV: LK_TRY(post(s, n)); break;
    case WAIT_SEND: LK_TRY(lk_dist_wait(s->handle[2 * n->message], NULL)); break;
    case WAIT_RECV: {
        lk_var x;
        LK_TRY(lk_dist_wait(s->handle[2 * n->message + 1], &x));
        LK_TRY(incoming(s, &s->p->message[n->message], x));
        break;
    }
    case WAITANY: LK_TRY(wait_all(s, n)); break;
    case RECV_ALL: LK_TRY(receive_all(s, n)); break;
    default: LK_TRY(program_local(s->p, n, s->var)); break;
    }
    return LK_OK;
}

static lk_status rank_run(struct rank *s, lk_comm *world)
{
    const struct program *p = s->p;
    s->rank = lk_comm_rank(world);
    LK_TRY(lk_tape_new(&s->tape));
    for (int c = 0; c < p->n_comms; c++)
        LK_TRY(lk_comm_split(world, p->color[c][s->rank], p->key[c][s->rank], &s->comm[c]));
    LK_TRY(program_inputs(p, s->tape, s->rank, s->input, s->grad, s->var));
    for (int i = 0; i < p->n_instructions; i++)
        if (p->instruction[i].group < 0 || !p->dropped[p->instruction[i].group])
            LK_TRY(instruction(s, &p->instruction[i]));
    return LK_TRACE(program_differentiate(p, s->tape, s->rank, s->grad, s->var, &s->out));
}

/* The first element of a kind that is not as expected. */
static void compare(const struct program *p, int rank, const char *what, double (*got)[MAX_LENGTH],
                    const double (*expected)[MAX_LENGTH], char *why, size_t n)
{
    double scale = 1;
    for (int v = 0; v < p->n_values; v++)
        for (int e = 0; e < p->value[v].length; e++)
            scale = fmax(scale, fabs(expected[v][e]));
    for (int v = 0; v < p->n_values && why[0] == '\0'; v++)
        for (int e = 0; p->value[v].rank == rank && e < p->value[v].length && why[0] == '\0'; e++)
            if (!(fabs(got[v][e] - expected[v][e]) <= 1e-9 * scale))
                snprintf(why, n, "%s v%d[%d] of rank %d is %.12g, it should be %.12g", what, v, e,
                         rank, got[v][e], expected[v][e]);
}

lk_status program_run(const struct program *p, lk_comm *comm, const struct program_calls *calls,
                      const struct outcome *expected, char *why, size_t n)
{
    struct rank *s = NULL;
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    memset(s, 0, sizeof *s);
    s->p = p;
    s->calls = calls;
    lk_status st = rank_run(s, comm);
    why[0] = '\0';
    if (st == LK_OK) {
        compare(p, s->rank, "value", s->out.value, expected->value, why, n);
        compare(p, s->rank, "gradient of", s->out.grad, expected->grad, why, n);
        compare(p, s->rank, "second derivative by", s->out.dgrad, expected->dgrad, why, n);
    }
    lk_tape_free(s->tape);
    for (int v = 0; v < p->n_values; v++) {
        lk_tensor_free(s->input[v]);
        lk_tensor_free(s->grad[v]);
    }
    for (int c = 0; c < p->n_comms; c++)
        lk_comm_close(s->comm[c]);
    lk_free(s);
    return st;
}

/* ---- local ranks ---- */

struct job {
    const struct program *p;
    const struct program_calls *calls;
    struct outcome expected;
    double deadline;
    char why[MAX_RANKS][256];
};

static lk_status job_rank(lk_comm *comm, void *arg)
{
    struct job *job = arg;
    LK_TRY(lk_comm_set_deadline(comm, job->deadline));
    return LK_TRACE(program_run(job->p, comm, job->calls, &job->expected,
                                job->why[lk_comm_rank(comm)], sizeof job->why[0]));
}

bool program_is_right(const struct program *p, const struct program_calls *calls, double deadline,
                      char *why, size_t n)
{
    static struct job job;
    memset(&job, 0, sizeof job);
    job.p = p;
    job.calls = calls;
    job.deadline = deadline;
    why[0] = '\0';
    lk_status st = program_reference(p, &job.expected);
    if (st == LK_OK)
        st = lk_run_local(p->size, job_rank, &job);
    if (st != LK_OK)
        snprintf(why, n, "%s: %s", lk_status_text(st), lk_error_message());
    for (int r = 0; r < p->size && why[0] == '\0'; r++)
        snprintf(why, n, "%s", job.why[r]);
    lk_error_clear();
    return why[0] == '\0';
}
