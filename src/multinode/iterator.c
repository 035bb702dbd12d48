/* lk_iterator: where a loop is in the batches of a loader, and its state.  A program makes one on each rank
 * and calls it on the thread of its communicator; iterator_multi_node.c has the batches that one rank
 * gives to all.
 */
#include "multinode/iterator.h"

#include "coll/agree.h"
#include "data/loader/loader.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>

#include <string.h>

#define FIELD(member) offsetof(lk_iterator_options, member)
static const lk_option iterator_options[] = {
    {"kind", LK_OPTION_CHOICE, FIELD(kind), .def = "serial",
     .choices = "serial multi_node synchronized",
     .help = "whose batches: of this rank's loader, of the master's, or of this rank's in the "
             "order of rank 0"},
    {"master", LK_OPTION_INT, FIELD(master), .def = "0", .min = 0, .max = 1e9,
     .help = "of multi_node: the rank whose loader is read"},
    {"repeat", LK_OPTION_FLAG, FIELD(repeat), .def = "true",
     .help = "begin another epoch behind the last batch; false: end"},
    {0}};

const lk_descriptor lk_iterator_descriptor = {"iterator", "a way through the batches of a loader",
                                              NULL, iterator_options, sizeof(lk_iterator_options)};

int64_t lk__iterator_batches(const lk_iterator *it)
{
    return (it->samples - 1) / it->batch + 1;
}

int64_t lk__iterator_next_size(const lk_iterator *it)
{
    int64_t left = it->samples - it->step % lk__iterator_batches(it) * it->batch;
    return left < it->batch ? left : it->batch;
}

/* ---- making one ---- */

/* What of a loader must be the same on all ranks for their orders to be. */
struct order {
    int64_t seed, samples, batch, shuffle;
};

static struct order order_of(const lk_loader *l)
{
    return (struct order){.seed = lk_loader_seed(l),
                          .samples = lk_dataset_info_of(lk_loader_dataset(l))->count,
                          .batch = lk_loader_batch_size(l, 0),
                          .shuffle = l->options.shuffle};
}

static lk_status order_check(const struct order *own, const struct order *first)
{
    LK_CHECK(own->samples == first->samples && own->batch == first->batch, LK_ESHAPE,
             "batches of %lld of %lld samples, on rank 0 of %lld of %lld: they cannot be "
             "synchronized",
             (long long)own->batch, (long long)own->samples, (long long)first->batch,
             (long long)first->samples);
    LK_CHECK(own->shuffle == first->shuffle, LK_ESHAPE,
             "the loader does%s shuffle, that of rank 0 does%s: they cannot be synchronized",
             own->shuffle ? "" : " not", first->shuffle ? "" : " not");
    return LK_OK;
}

/* Take the seed of rank 0. */
static lk_status synchronize(lk_iterator *it, const struct order *own)
{
    struct order first = *own;
    LK_TRY(lk_bcast(it->comm, &first, sizeof first / sizeof(int64_t), LK_I64, 0, "order"));
    LK_TRY(lk_agree(it->comm, order_check(own, &first)));
    it->seed = first.seed;
    lk_loader_set_seed(it->loader, first.seed);
    return LK_OK;
}

static lk_status arguments_check(const lk_comm *comm, const lk_loader *loader,
                                 const lk_iterator_options *o)
{
    LK_CHECK(o->kind >= LK_ITERATOR_SERIAL && o->kind <= LK_ITERATOR_SYNCHRONIZED, LK_EINVAL,
             "%d is no kind of an iterator", o->kind);
    LK_CHECK(comm || o->kind == LK_ITERATOR_SERIAL, LK_EINVAL,
             "comm is NULL: an iterator of several ranks needs one");
    bool multi_node = o->kind == LK_ITERATOR_MULTI_NODE;
    LK_CHECK(!multi_node || (o->master >= 0 && o->master < lk_comm_size(comm)), LK_EINVAL,
             "master %lld of %d ranks", (long long)o->master, lk_comm_size(comm));
    LK_CHECK(loader || (multi_node && lk_comm_rank(comm) != o->master), LK_EINVAL,
             "loader is NULL, but its batches are to be read");
    return LK_OK;
}

/* The rest of making one, behind its memory. */
static lk_status iterator_begin(lk_iterator *it)
{
    struct order own = {0};
    if (it->loader)
        own = order_of(it->loader);
    it->samples = own.samples;
    it->batch = own.batch;
    it->seed = own.seed;
    if (it->kind == LK_ITERATOR_MULTI_NODE)
        LK_TRY(lk__multi_node_open(it));
    if (it->kind == LK_ITERATOR_SYNCHRONIZED)
        LK_TRY(synchronize(it, &own));
    return LK_OK;
}

/* `read` is what became of reading the options. */
static lk_status iterator_new(lk_comm *comm, lk_loader *loader, const lk_iterator_options *o,
                              lk_status read, lk_iterator **out)
{
    lk_iterator *it;
    lk_status st;
    LK_TRY(lk_agree(comm, read == LK_OK ? arguments_check(comm, loader, o) : read));
    LK_TRY(lk__agree_alloc(comm, &it, sizeof *it));
    it->kind = (lk_iterator_kind)o->kind;
    it->comm = comm;
    it->master = it->kind == LK_ITERATOR_MULTI_NODE ? (int)o->master : 0;
    it->is_master = it->kind == LK_ITERATOR_SERIAL || lk_comm_rank(comm) == it->master;
    it->loader = it->kind != LK_ITERATOR_MULTI_NODE || it->is_master ? loader : NULL;
    it->repeat = o->repeat;
    LK_TRY_TO(fail, iterator_begin(it));
    *out = it;
    return LK_OK;
fail:
    lk_iterator_free(it);
    return st;
}

lk_status lk_iterator_new_options(lk_comm *comm, lk_loader *loader,
                                  const lk_iterator_options *options, lk_iterator **out)
{
    *out = NULL;
    return LK_TRACE(iterator_new(comm, loader, options, LK_OK, out));
}

lk_status lk_iterator_new(lk_comm *comm, lk_loader *loader, const char *options, lk_iterator **out)
{
    lk_arena *arena = NULL;
    lk_iterator_options read = {0};
    *out = NULL;
    lk_status st = lk_arena_new(&arena);
    if (st == LK_OK)
        st = lk_options_parse(&lk_iterator_descriptor, options, arena, &read);
    lk_arena_free(arena); /* no option is a text */
    return LK_TRACE(iterator_new(comm, loader, &read, st, out));
}

void lk_iterator_free(lk_iterator *it)
{
    if (!it)
        return;
    for (int f = 0; f < LK_MAX_FIELDS; f++) {
        lk_tensor_free(it->whole[f]);
        lk_tensor_free(it->last[f]);
    }
    lk_free(it->index);
    lk_free(it);
}

/* ---- batches ---- */

lk_status lk__iterator_read(lk_iterator *it, lk_batch *out, bool *more)
{
    int64_t batches = lk__iterator_batches(it);
    *more = it->repeat || it->step < batches;
    if (*more)
        LK_TRY(lk_loader_read_batch(it->loader, it->step / batches, it->step % batches, 0,
                                    lk__iterator_next_size(it), out));
    return LK_OK;
}

lk_status lk_iterator_next(lk_iterator *it, lk_batch *out, bool *more)
{
    *more = false;
    lk_status st = it->kind == LK_ITERATOR_MULTI_NODE ? lk__multi_node_next(it, out, more)
                                                      : lk__iterator_read(it, out, more);
    if (st != LK_OK)
        *more = false;
    LK_TRY(st);
    it->step += *more;
    return LK_OK;
}

lk_position lk_iterator_position(const lk_iterator *it)
{
    int64_t batches = lk__iterator_batches(it);
    return (lk_position){.step = it->step,
                         .epoch = it->step / batches,
                         .batch = it->step % batches,
                         .batches = batches};
}

bool lk_iterator_repeats(const lk_iterator *it)
{
    return it->repeat;
}

lk_field lk_iterator_field(const lk_iterator *it, int f)
{
    if (it->loader)
        return lk_loader_field(it->loader, f);
    return f >= 0 && f < it->layout.n_fields ? it->layout.field[f] : (lk_field){.name = ""};
}

void lk_iterator_reset(lk_iterator *it)
{
    it->step = 0;
}

/* ---- its state ---- */

enum { STEP, SEED, SAMPLES, BATCH };

/* From which to go on: no training comes to the end of what a position can hold from here. */
static const int64_t last_step = INT64_MAX / 2;

lk_status lk_iterator_numbers(lk_iterator *it, const char *prefix,
                              lk_state_number number[LK_ITERATOR_NUMBERS])
{
    static const char *const names[LK_ITERATOR_NUMBERS] = {
        [STEP] = "step", [SEED] = "seed", [SAMPLES] = "samples", [BATCH] = "batch"};
    const int64_t values[LK_ITERATOR_NUMBERS] = {
        [STEP] = it->step, [SEED] = it->seed, [SAMPLES] = it->samples, [BATCH] = it->batch};
    LK_CHECK(strlen(prefix) < LK_ITERATOR_PREFIX, LK_EINVAL,
             "prefix \"%s\" of %zu bytes, at most %d are possible", prefix, strlen(prefix),
             LK_ITERATOR_PREFIX - 1);
    for (int i = 0; i < LK_ITERATOR_NUMBERS; i++) {
        snprintf(it->name[i], sizeof it->name[i], "%s.%s", prefix, names[i]);
        number[i] = lk_state_i64(it->name[i], values[i]);
    }
    return LK_OK;
}

/* Whether the numbers are of such batches; another seed is fine. */
static lk_status numbers_check(const lk_iterator *it, const lk_state_number *number)
{
    LK_CHECK(number[SAMPLES].i64 == it->samples && number[BATCH].i64 == it->batch, LK_EINVAL,
             "the state is of batches of %lld of %lld samples, the iterator's are of %lld of %lld",
             (long long)number[BATCH].i64, (long long)number[SAMPLES].i64, (long long)it->batch,
             (long long)it->samples);
    LK_CHECK(number[STEP].i64 >= 0 && number[STEP].i64 <= last_step, LK_EINVAL,
             "the state is of step %lld: it is from 0 to %lld", (long long)number[STEP].i64,
             (long long)last_step);
    return LK_OK;
}

lk_status lk_iterator_restore(lk_iterator *it, const lk_state_number number[LK_ITERATOR_NUMBERS])
{
    bool alone = it->kind == LK_ITERATOR_SERIAL;
    lk_status st = it->is_master ? numbers_check(it, number) : LK_OK;
    int64_t now[] = {number[STEP].i64, number[SEED].i64};
    LK_TRY(alone ? st : lk_agree(it->comm, st));
    if (!alone)
        LK_TRY(lk_bcast(it->comm, now, 2, LK_I64, it->master, "iterator"));
    it->step = now[0];
    it->seed = now[1];
    if (it->loader)
        lk_loader_set_seed(it->loader, it->seed);
    return LK_OK;
}
