/* The opening of an exchange (exchange.h): ranks that hold boxes send them to the ranks that have
 * the files, and when a state is saved the latter answer with what each is to give.  Collective. */
#include "io/checkpoint/checkpoint.h"
#include "io/exchange.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <string.h>

/* A piece as numbers: tensor, then first and n of eight axes. */
enum { PIECE = 1 + 2 * LK_MAX_NDIM };

/* Numbers that travel: to each rank, and from each. */
typedef struct letters {
    int64_t *out, *in;
    int64_t *out_counts, *in_counts; /* [size] */
} letters;

static void letters_free(letters *l)
{
    lk_free(l->out);
    lk_free(l->in);
    lk_free(l->out_counts);
    lk_free(l->in_counts);
}

/* The tensor behind tensor `i` in the files of a rank, i -1: the first; -1: there is none. */
static int64_t file_next(const lk__exchange *x, int rank, int64_t i)
{
    const lk_checkpoint *c = x->c;
    if (x->place[rank] < 0)
        return -1;
    if (i >= 0 && i + 1 < c->n_tensors && c->tensor[i + 1].part == c->tensor[i].part)
        return i + 1;
    int64_t part = i < 0 ? x->place[rank] : c->tensor[i].part + x->files;
    return part < c->n_parts ? lk__part_begin(c, part) : -1;
}

/* ---- all ranks hold all ---- */

static lk_status whole_find(lk__exchange *x)
{
    int32_t whole = 1;
    for (int64_t i = 0; whole && i < x->c->n_tensors; i++)
        whole = lk_box_count(&x->held[i].box) == lk__tensor_count(x->c, i);
    if (x->comm)
        LK_TRY(lk_allreduce(x->comm, NULL, &whole, 1, LK_I32, LK_REDUCE_MIN, "checkpoint"));
    x->whole = whole != 0;
    return LK_OK;
}

/* Who holds all has room for more at a time, and all need not wait for each other so often. */
static void room_widen(lk__exchange *x)
{
    int64_t most = 8 * x->room, wanted = 0;
    for (int64_t i = 0; i < x->c->n_parts; i++)
        wanted += x->c->part[i].bytes / 32;
    x->room = wanted < x->room ? x->room : wanted < most ? wanted : most;
}

/* The tensors in the files of a rank, as far as this one holds them, as pieces. */
static lk_status own_pieces(lk__exchange *x, int rank, lk__flow *flow)
{
    for (int64_t i = file_next(x, rank, -1); i >= 0; i = file_next(x, rank, i))
        if (lk_box_count(&x->held[i].box) > 0)
            LK_TRY(lk__flow_add(flow, i, &x->held[i].box));
    return LK_OK;
}

/* Saving, each rank writes what it holds itself; loading, it takes all of what is sent to every rank. */
static lk_status flows_of_whole(lk__exchange *x)
{
    if (!x->saving)
        for (int i = 0; i < x->size; i++)
            LK_TRY(own_pieces(x, i, &x->box[i]));
    else
        LK_TRY(own_pieces(x, x->rank, &x->box[x->rank]));
    if (x->saving)
        LK_TRY(own_pieces(x, x->rank, &x->file[x->rank]));
    return LK_OK;
}

/* ---- boxes, to those who have the files ---- */

static int64_t file_numbers(const lk__exchange *x, int rank)
{
    int64_t n = 0;
    for (int64_t i = file_next(x, rank, -1); i >= 0; i = file_next(x, rank, i))
        n += 2 * (int64_t)x->c->tensor[i].shape.ndim;
    return n;
}

static lk_status boxes_put(const lk__exchange *x, letters *l)
{
    int64_t out = 0, mine = file_numbers(x, x->rank);
    LK_TRY(lk_alloc(&l->out_counts, x->size, sizeof *l->out_counts));
    LK_TRY(lk_alloc(&l->in_counts, x->size, sizeof *l->in_counts));
    for (int r = 0; r < x->size; r++) {
        out += l->out_counts[r] = file_numbers(x, r);
        l->in_counts[r] = mine;
    }
    LK_TRY(lk_alloc(&l->out, out, sizeof *l->out));
    LK_TRY(lk_alloc(&l->in, mine * x->size, sizeof *l->in));
    int64_t *at = l->out;
    for (int r = 0; r < x->size; r++)
        for (int64_t i = file_next(x, r, -1); i >= 0; i = file_next(x, r, i))
            for (int k = 0; k < x->c->tensor[i].shape.ndim; k++) {
                *at++ = x->held[i].box.first[k];
                *at++ = x->held[i].box.n[k];
            }
    return LK_OK;
}

/* The box of tensor `i` out of numbers. */
static lk_status box_get(const lk__exchange *x, int rank, int64_t i, const int64_t *from,
                         lk_box *box)
{
    const lk_shape *shape = &x->c->tensor[i].shape;
    *box = (lk_box){.ndim = shape->ndim};
    for (int64_t k = 0; k < shape->ndim; k++) {
        box->first[k] = from[2 * k];
        box->n[k] = from[2 * k + 1];
    }
    LK_CHECK(lk_box_is_within(box, shape->dim), LK_EMISMATCH,
             "rank %d tells a box that is not within \"%.128s\"", rank, x->c->tensor[i].name);
    return LK_OK;
}

/* What goes between own files and others, from their boxes: box [size] is room. */
static lk_status files_flows(lk__exchange *x, const letters *l, lk_box *box)
{
    int64_t at = 0, mine = l->in_counts[0];
    for (int64_t i = file_next(x, x->rank, -1); i >= 0; i = file_next(x, x->rank, i)) {
        for (int r = 0; r < x->size; r++)
            LK_TRY(box_get(x, r, i, l->in + r * mine + at, &box[r]));
        at += 2 * (int64_t)x->c->tensor[i].shape.ndim;
        if (x->saving)
            LK_TRY(lk__givers_find(x->c, i, box, x->size, x->rank, x->file));
        for (int r = 0; !x->saving && r < x->size; r++)
            if (lk_box_count(&box[r]) > 0)
                LK_TRY(lk__flow_add(&x->file[r], i, &box[r]));
    }
    return LK_OK;
}

static lk_status boxes_exchange(lk__exchange *x)
{
    lk_status st;
    letters l = {0};
    lk_box *box = NULL;
    lk_status own = lk_alloc(&box, x->size, sizeof *box);
    if (own == LK_OK)
        own = boxes_put(x, &l);
    LK_TRY_TO(done, lk_agree(x->comm, own));
    LK_TRY_TO(done, own); /* as all know by now */
    if (x->comm)
        LK_TRY_TO(done, lk_alltoallv(x->comm, l.out, l.out_counts, l.in, l.in_counts, LK_I64,
                                     "checkpoint"));
    else
        memcpy(l.in, l.out, (size_t)l.in_counts[0] * sizeof *l.in);
    st = files_flows(x, &l, box);
    for (int i = 0; st == LK_OK && !x->saving && i < x->size; i++)
        st = own_pieces(x, i, &x->box[i]);
    LK_TRY_TO(done, lk_agree(x->comm, st));
done:
    letters_free(&l);
    lk_free(box);
    return st;
}

/* ---- pieces, to those who give them ---- */

static void piece_put(const lk__piece *p, int64_t *to)
{
    *to++ = p->tensor;
    for (int i = 0; i < LK_MAX_NDIM; i++) {
        *to++ = i < p->box.ndim ? p->box.first[i] : 0;
        *to++ = i < p->box.ndim ? p->box.n[i] : 0;
    }
}

static lk_status pieces_put(const lk__exchange *x, letters *l)
{
    int64_t out = 0;
    LK_TRY(lk_alloc(&l->out_counts, x->size, sizeof *l->out_counts));
    LK_TRY(lk_alloc(&l->in_counts, x->size, sizeof *l->in_counts));
    for (int r = 0; r < x->size; r++)
        out += l->out_counts[r] = PIECE * x->file[r].n;
    LK_TRY(lk_alloc(&l->out, out, sizeof *l->out));
    int64_t *at = l->out;
    for (int r = 0; r < x->size; r++)
        for (int64_t i = 0; i < x->file[r].n; i++, at += PIECE)
            piece_put(&x->file[r].piece[i], at);
    return LK_OK;
}

static lk_status pieces_get(lk__exchange *x, const letters *l)
{
    const int64_t *at = l->in;
    for (int r = 0; r < x->size; r++)
        for (int64_t i = 0; i < l->in_counts[r] / PIECE; i++, at += PIECE) {
            lk_box box;
            LK_CHECK(at[0] >= 0 && at[0] < x->c->n_tensors, LK_EMISMATCH,
                     "rank %d asks for tensor %lld", r, (long long)at[0]);
            LK_TRY(box_get(x, r, at[0], at + 1, &box));
            LK_TRY(lk__flow_add(&x->box[r], at[0], &box));
        }
    return LK_OK;
}

static lk_status pieces_exchange(lk__exchange *x)
{
    lk_status st;
    letters l = {0};
    int64_t in = 0;
    LK_TRY_TO(done, lk_agree(x->comm, pieces_put(x, &l)));
    if (x->comm)
        LK_TRY_TO(done, lk_alltoall(x->comm, l.out_counts, l.in_counts, 1, LK_I64, "checkpoint"));
    else
        l.in_counts[0] = l.out_counts[0];
    for (int r = 0; r < x->size; r++)
        in += l.in_counts[r];
    LK_TRY_TO(done, lk_agree(x->comm, lk_alloc(&l.in, in, sizeof *l.in)));
    if (x->comm)
        LK_TRY_TO(done, lk_alltoallv(x->comm, l.out, l.out_counts, l.in, l.in_counts, LK_I64,
                                     "checkpoint"));
    else
        memcpy(l.in, l.out, (size_t)in * sizeof *l.in);
    LK_TRY_TO(done, lk_agree(x->comm, pieces_get(x, &l)));
done:
    letters_free(&l);
    return st;
}

/* ---- all of it ---- */

static lk_status memory_take(lk__exchange *x)
{
    LK_TRY(lk_alloc_zero(&x->file, x->size, sizeof *x->file));
    LK_TRY(lk_alloc_zero(&x->box, x->size, sizeof *x->box));
    LK_TRY(lk_alloc_zero(&x->bands, x->size, sizeof *x->bands));
    LK_TRY(lk_alloc_zero(&x->band, x->size, sizeof *x->band));
    LK_TRY(lk_alloc_zero(&x->has, x->size, sizeof *x->has));
    LK_TRY(lk_alloc(&x->out, x->room, 1));
    return LK_TRACE(lk_alloc(&x->in, x->room, 1));
}

/* Tensors are seen as boxes are cut; where they lie does not change. */
static lk_status axes_find(lk__exchange *x)
{
    x->seen = *x->c;
    x->seen.tensor = NULL;
    lk_status st = lk_alloc(&x->seen.tensor, x->c->n_tensors, sizeof *x->seen.tensor);
    LK_TRY(lk_agree(x->comm, st));
    for (int64_t i = 0; i < x->c->n_tensors; i++)
        x->seen.tensor[i] = x->c->tensor[i];
    LK_TRY(lk__axes_agree(x->comm, x->seen.tensor, x->held, x->seen.n_tensors));
    x->c = &x->seen;
    return LK_OK;
}

lk_status lk__exchange_open(lk__exchange *x)
{
    LK_TRY(whole_find(x));
    if (!x->whole)
        LK_TRY(axes_find(x));
    if (x->whole && !x->saving)
        room_widen(x);
    LK_TRY(lk_agree(x->comm, memory_take(x)));
    if (x->whole) {
        return LK_TRACE(lk_agree(x->comm, flows_of_whole(x)));
    }
    LK_TRY(boxes_exchange(x));
    if (x->saving)
        LK_TRY(pieces_exchange(x));
    return LK_OK;
}

void lk__exchange_close(lk__exchange *x)
{
    for (int i = 0; x->file && i < x->size; i++)
        lk_free(x->file[i].piece);
    for (int i = 0; x->box && i < x->size; i++)
        lk_free(x->box[i].piece);
    lk_free(x->file);
    lk_free(x->box);
    lk_free(x->bands);
    lk_free(x->band);
    lk_free(x->has);
    lk_free(x->out);
    lk_free(x->in);
    lk_free(x->seen.tensor);
    *x = (lk__exchange){.comm = NULL};
}
