/* The generator: local ops, collectives, losses; messages.c and segments.c have the rest. */
#include "programs.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t program_random(uint64_t *random, uint64_t below)
{
    *random = mix(*random);
    return (*random >> 16) % below;
}

static bool chance(uint64_t *random, int percent)
{
    return program_random(random, 100) < (uint64_t)percent;
}

static double unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double program_real(uint64_t *random)
{
    *random = mix(*random);
    return unit(*random);
}

double program_input(const struct program *p, int value, int element)
{
    uint64_t bits = mix(mix(p->seed ^ mix((uint64_t)value)) + (uint64_t)element);
    if (p->value[value].integer)
        return (double)(int64_t)(bits % 5) - 2;
    return 2 * unit(bits) - 1;
}

/* ---- values and instructions ---- */

int program_value(struct program *p, int rank, int length, enum source source, double bound)
{
    p->value[p->n_values] = (struct value){
        .rank = rank, .length = length, .source = source, .bound = bound};
    return p->n_values++;
}

static bool fits(const struct value *v, int rank, int length, bool integer)
{
    return v->rank == rank && v->bound > 0 && v->integer == integer &&
           (length < 0 || v->length == length);
}

/* A value of a rank, of any length if it is negative, rather a late one than an early one; a new one of
 * the program's own if there is none, and sometimes anyway. */
int program_pick(struct program *p, uint64_t *random, int rank, int length, bool integer)
{
    double early = program_real(random);
    int start = p->n_values - 1 - (int)(early * early * p->n_values);
    for (int i = 0; i < p->n_values && !chance(random, 2); i++) {
        int v = (start - i + p->n_values) % p->n_values;
        if (fits(&p->value[v], rank, length, integer))
            return v;
    }
    if (length < 0)
        length = 1 + (int)program_random(random, 4);
    enum source source = integer || chance(random, 25) ? CONSTANT : LEAF;
    int v = program_value(p, rank, length, source, integer ? 2 : 1);
    p->value[v].integer = integer;
    return v;
}

struct instruction *program_add(struct program *p, enum kind kind, int rank, int comm)
{
    struct instruction *n = &p->instruction[p->n_instructions++];
    *n = (struct instruction){.kind = kind, .rank = rank, .comm = comm, .group = p->n_groups - 1};
    for (int r = 0; r < MAX_RANKS; r++)
        n->in[r] = n->out[r] = -1;
    return n;
}

/* Multiply and add, so that no two ranks have equal values. */
static int affine(struct program *p, int x, double scale, double shift)
{
    const struct value *v = &p->value[x];
    struct instruction *n = program_add(p, AFFINE, v->rank, 0);
    n->in[0] = x;
    n->scale = scale;
    n->shift = shift;
    n->out[0] = program_value(p, v->rank, v->length, COMPUTED,
                              fabs(scale) * v->bound + fabs(shift));
    return n->out[0];
}

/* Keep values of moderate size, so that rounding is nowhere magnified. */
static void tame(struct program *p, int v)
{
    double bound = p->value[v].bound;
    if (bound <= 8)
        return;
    if (!p->value[v].integer)
        affine(p, v, 1 / bound, 0);
    p->value[v].bound = 0;
}

int program_part(int length, int i, int n)
{
    return length * (i + 1) / n - length * i / n;
}

int program_members(const struct program *p, int comm, int rank, int *member, int *own)
{
    int n = 0;
    for (int r = 0; r < p->size; r++) {
        int at = n;
        if (p->color[comm][r] != p->color[comm][rank])
            continue;
        while (at > 0 && p->key[comm][member[at - 1]] > p->key[comm][r]) {
            member[at] = member[at - 1];
            at--;
        }
        member[at] = r;
        n++;
    }
    for (int i = 0; i < n; i++)
        if (member[i] == rank)
            *own = i;
    return n;
}

/* ---- local ops ---- */

static void local(struct program *p, uint64_t *random)
{
    static const enum kind kinds[] = {ADD,    SUB,  MUL,   SIN,    AFFINE,
                                      AFFINE, STOP, SLICE, CONCAT, WEIGH};
    enum kind kind = kinds[program_random(random, sizeof kinds / sizeof kinds[0])];
    int rank = (int)program_random(random, (uint64_t)p->size);
    int x = program_pick(p, random, rank, -1, false), y = -1, length = p->value[x].length;
    if (kind == AFFINE) {
        tame(p, affine(p, x, 2 * program_real(random) - 1, program_real(random)));
        return;
    }
    if (kind == ADD || kind == SUB || kind == MUL || kind == WEIGH)
        y = program_pick(p, random, rank, length, kind == WEIGH);
    if (kind == CONCAT) {
        y = program_pick(p, random, rank, -1, false);
        length += p->value[y].length;
        if (length > MAX_LENGTH)
            return;
    }
    double a = p->value[x].bound, b = y >= 0 ? p->value[y].bound : 0;
    struct instruction *n = program_add(p, kind, rank, 0);
    n->in[0] = x;
    n->in[1] = y;
    if (kind == SLICE) {
        n->start = (int)program_random(random, (uint64_t)length + 1);
        n->stop = n->start + (int)program_random(random, (uint64_t)(length - n->start) + 1);
        length = n->stop - n->start;
    }
    double bound = kind == MUL || kind == WEIGH ? a * b
                   : kind == SIN                ? 1
                   : kind == CONCAT             ? fmax(a, b)
                                                : a + b;
    n->out[0] = program_value(p, rank, length, COMPUTED, bound);
    tame(p, n->out[0]);
}

/* ---- collectives ---- */

struct place {
    int comm, n, member[MAX_RANKS];
};

static struct place somewhere(const struct program *p, uint64_t *random)
{
    struct place at;
    int own;
    at.comm = (int)program_random(random, (uint64_t)p->n_comms - 1); /* not that of any tag */
    at.n = program_members(p, at.comm, (int)program_random(random, (uint64_t)p->size), at.member,
                           &own);
    return at;
}

/* Results of a collective, where the length is not negative. */
static void results(struct program *p, struct instruction *n, const struct place *at,
                    const int *length, double bound, bool integer)
{
    for (int i = 0; i < at->n; i++)
        if (length[i] >= 0) {
            int v = program_value(p, at->member[i], length[i], COMPUTED, bound);
            p->value[v].integer = integer;
            n->out[at->member[i]] = v;
        }
    for (int i = 0; i < at->n; i++)
        if (length[i] >= 0)
            tame(p, n->out[at->member[i]]);
}

/* allreduce, reduce, bcast, reduce_scatter, scatter: all have a vector of the same length. */
static void collective_whole(struct program *p, uint64_t *random, enum kind kind)
{
    static const lk_reduce_op folds[] = {LK_REDUCE_SUM, LK_REDUCE_AVG, LK_REDUCE_PROD,
                                         LK_REDUCE_MIN, LK_REDUCE_MAX};
    struct place at = somewhere(p, random);
    bool folded = kind == ALLREDUCE || kind == REDUCE;
    bool integer = (kind == ALLREDUCE || kind == BCAST) && chance(random, 15);
    lk_reduce_op fold = folded && !integer ? folds[program_random(random, 5)] : LK_REDUCE_SUM;
    int in[MAX_RANKS], length[MAX_RANKS];
    double most = 0, product = 1;
    for (int i = 0; i < at.n; i++) {
        int of = i == 0 ? -1 : p->value[in[0]].length;
        in[i] = program_pick(p, random, at.member[i], of, integer);
        if (fold == LK_REDUCE_MIN || fold == LK_REDUCE_MAX)
            in[i] = affine(p, in[i], 0.5 + program_real(random), program_real(random));
        most = fmax(most, p->value[in[i]].bound);
        product *= p->value[in[i]].bound;
    }
    struct instruction *n = program_add(p, kind, -1, at.comm);
    n->fold = fold;
    n->root = (int)program_random(random, (uint64_t)at.n);
    for (int i = 0; i < at.n; i++) {
        n->in[at.member[i]] = in[i];
        length[i] = p->value[in[i]].length;
        if (kind == REDUCE_SCATTER || kind == SCATTER)
            length[i] = program_part(length[i], i, at.n);
    }
    bool sums = kind == REDUCE_SCATTER || (folded && fold == LK_REDUCE_SUM);
    double bound = fold == LK_REDUCE_PROD ? product : sums ? most * at.n : most;
    results(p, n, &at, length, bound, integer);
}

/* allgather, gather, alltoall (to cut anew), sendrecv: lengths differ. */
static void collective_parts(struct program *p, uint64_t *random, enum kind kind)
{
    struct place at = somewhere(p, random);
    bool integer = kind != ALLTOALL && chance(random, 15);
    int in[MAX_RANKS], length[MAX_RANKS], all = 0;
    double most = 0;
    for (int i = 0; i < at.n; i++) {
        in[i] = program_pick(p, random, at.member[i], -1, integer);
        all += p->value[in[i]].length;
        most = fmax(most, p->value[in[i]].bound);
    }
    if (all > MAX_LENGTH && kind != SENDRECV)
        return;
    struct instruction *n = program_add(p, kind, -1, at.comm);
    n->root = (int)program_random(random, (uint64_t)at.n);
    n->periodic = chance(random, 50);
    for (int i = 0; i < at.n; i++) {
        int from = i - n->root;
        n->in[at.member[i]] = in[i];
        length[i] = all;
        if (kind == GATHER && i != n->root)
            length[i] = -1;
        if (kind == ALLTOALL)
            length[i] = program_part(all, at.n - 1 - i, at.n);
        if (kind == SENDRECV)
            length[i] = from >= 0     ? p->value[in[from]].length
                        : n->periodic ? p->value[in[from + at.n]].length
                                      : -1;
    }
    results(p, n, &at, length, most, integer);
}

static void collective(struct program *p, uint64_t *random)
{
    static const enum kind kinds[] = {ALLREDUCE,      ALLREDUCE, REDUCE,    BCAST,
                                      REDUCE_SCATTER, SCATTER,   ALLGATHER, GATHER,
                                      ALLTOALL,       SENDRECV,  BARRIER};
    enum kind kind = kinds[program_random(random, sizeof kinds / sizeof kinds[0])];
    if (kind == BARRIER) {
        struct place at = somewhere(p, random);
        struct instruction *n = program_add(p, BARRIER, -1, at.comm);
        n->root = at.member[0]; /* one of the group */
        return;
    }
    if (kind == ALLGATHER || kind == GATHER || kind == ALLTOALL || kind == SENDRECV)
        collective_parts(p, random, kind);
    else
        collective_whole(p, random, kind);
}

/* ---- the whole ---- */

/* The world, splits of it, and last a copy of the world for messages with any tag. */
static void communicators(struct program *p, uint64_t *random)
{
    p->n_comms = 2 + (int)program_random(random, MAX_COMMS - 1);
    for (int c = 1; c + 1 < p->n_comms; c++) {
        uint64_t colors = 1 + program_random(random, 3);
        for (int r = 0; r < p->size; r++) {
            p->color[c][r] = (int)program_random(random, colors);
            p->key[c][r] = (int)program_random(random, 100) * MAX_RANKS + r;
        }
    }
    for (int r = 0; r < p->size; r++)
        p->key[0][r] = p->key[p->n_comms - 1][r] = r;
}

static void losses(struct program *p, uint64_t *random)
{
    for (int r = 0; r < p->size; r++) {
        int n = chance(random, 30) ? 0 : 1 + (int)program_random(random, 2);
        for (int i = 0; i < n && p->n_losses < MAX_LOSSES; i++) {
            int v = program_pick(p, random, r, -1, false);
            p->loss[p->n_losses++] = (struct loss){.value = v,
                                                   .weight = 0.5 + program_real(random)};
        }
    }
}

void program_make(struct program *p, uint64_t seed, int size)
{
    uint64_t random = mix(seed);
    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->size = size;
    p->second = chance(&random, 25);
    communicators(p, &random);
    int steps = 4 + (int)program_random(&random, 24);
    for (int k = 0; k < steps; k++) {
        p->n_groups++;
        switch (program_random(&random, 9)) {
        case 0:
        case 1: local(p, &random); break;
        case 2:
        case 3: collective(p, &random); break;
        case 4:
        case 5: program_message(p, &random); break;
        case 6: program_segments(p, &random); break;
        default: program_event(p, &random); break;
        }
    }
    while (program_event(p, &random))
        continue;
    losses(p, &random);
}
