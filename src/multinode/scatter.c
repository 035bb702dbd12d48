/* lk_scatter_dataset(): each rank gets its samples of a set that one rank has.
 *
 * The root tells all what the set is; each rank takes memory for its samples, and all agree on that.  Then
 * the root goes round: in round k every other rank gets its k-th piece, about a MiB, field by field,
 * straight into its memory.  So no rank waits longer than for one piece of each other, and the root needs
 * memory for one piece besides its own samples.  A root that cannot read on sends each rank that still
 * waits nothing at all, and all agree on its failure.
 */
#include "base/fpenv.h"
#include "data/dataset.h"
#include "data/empty.h"

#include <lockstep/coll.h>
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/checked.h>
#include <lockstep/iterator.h>
#include <lockstep/rng.h>

#include <string.h>

enum { PIECE_BYTES = 1 << 20, NAME_SIZE = 256 };

static const lk_option scatter_options[] = {
    {"root", LK_OPTION_INT, offsetof(lk_scatter_options, root), .def = "0", .min = 0, .max = 1e9,
     .help = "the rank that has the set"},
    {"shuffle", LK_OPTION_FLAG, offsetof(lk_scatter_options, shuffle), .def = "false",
     .help = "give out the samples of a permutation, not of the set"},
    {"seed", LK_OPTION_INT, offsetof(lk_scatter_options, seed), .def = "0",
     .help = "of the permutation"},
    {"equal_length", LK_OPTION_FLAG, offsetof(lk_scatter_options, equal_length), .def = "true",
     .help = "as many samples on each rank, some of them on several; false: each on one"},
    {0}};

const lk_descriptor lk_scatter_descriptor = {"scatter", "a part of a set for each rank", NULL,
                                             scatter_options, sizeof(lk_scatter_options)};

lk_range lk_scatter_range(int64_t n, int rank, int size, bool equal_length)
{
    int64_t each = n / size, more = n % size;
    if (equal_length)
        return (lk_range){lk_range_split(n, rank, size).first, each + (more > 0)};
    return (lk_range){each * rank + (rank < more ? rank : more), each + (rank < more)};
}

/* What the root says of its set. */
struct header {
    int64_t count, classes, n_fields, equal_length;
    lk_field field[LK_MAX_FIELDS];
    char name[NAME_SIZE];
};

/* A scatter on one rank. */
struct scatter {
    lk_comm *comm; /* of its own, so that no message of the program matches */
    int rank, size, root;
    const lk_dataset *ds; /* on the root */
    bool shuffle;
    lk_rng order;
    struct header header;
    lk_range mine;
    lk_tensor *tensor[LK_MAX_FIELDS]; /* this rank's samples */
    char *data[LK_MAX_FIELDS];
    int64_t bytes[LK_MAX_FIELDS]; /* of a sample */
    int64_t piece;                /* samples that are sent at once */
    char *buffer;                 /* the root's: a piece, field by field */
    int64_t at[LK_MAX_FIELDS];    /* where each begins there */
};

/* ---- beginning ---- */

static struct header header_make(const lk_dataset *ds, const lk_scatter_options *options)
{
    const lk_dataset_info *info = lk_dataset_info_of(ds);
    struct header t = {.count = info->count,
                       .classes = info->classes,
                       .n_fields = info->n_fields,
                       .equal_length = options->equal_length};
    memcpy(t.field, info->field, (size_t)info->n_fields * sizeof t.field[0]);
    snprintf(t.name, sizeof t.name, "%s", info->name);
    return t;
}

/* What came in a message is not more than there can be; names and dtypes are checked where they are used. */
static lk_status header_check(struct header *t)
{
    t->name[NAME_SIZE - 1] = '\0';
    LK_CHECK(t->count >= 0 && t->n_fields >= 0 && t->n_fields <= LK_MAX_FIELDS, LK_EINVAL,
             "the root scatters %lld samples of %lld fields", (long long)t->count,
             (long long)t->n_fields);
    for (int f = 0; f < t->n_fields; f++) {
        int64_t n;
        LK_TRY(lk_shape_count(t->field[f].shape, &n));
        LK_TRY(lk_mul_i64(n, (int64_t)lk_dtype_size(t->field[f].dtype), &n));
        LK_TRY(lk_mul_i64(n, t->count, &n));
        LK_CHECK(t->field[f].shape.ndim < LK_MAX_NDIM, LK_EINVAL,
                 "the root scatters samples of %d axes, at most %d are possible",
                 t->field[f].shape.ndim, LK_MAX_NDIM - 1);
    }
    return LK_OK;
}

/* Memory for a piece of samples, each field of it aligned. */
static lk_status buffer_take(struct scatter *s)
{
    int64_t all = 0, bytes;
    for (int f = 0; f < s->header.n_fields; f++) {
        s->at[f] = all;
        LK_TRY(lk_mul_i64(s->piece, s->bytes[f], &bytes));
        LK_TRY(lk_add_i64(all, bytes, &all));
        LK_TRY(lk_round_up_i64(all, LK_ALIGN, &all));
    }
    return LK_TRACE(lk_alloc(&s->buffer, all, 1));
}

/* Memory for this rank's samples and, on the root, for a piece. */
static lk_status memory_take(struct scatter *s)
{
    int64_t row = 0;
    LK_TRY(header_check(&s->header));
    s->mine = lk_scatter_range(s->header.count, s->rank, s->size, s->header.equal_length);
    for (int f = 0; f < s->header.n_fields; f++) {
        const lk_field *field = &s->header.field[f];
        lk_shape shape = {.ndim = field->shape.ndim + 1, .dim = {s->mine.n}};
        void *start;
        memcpy(shape.dim + 1, field->shape.dim, (size_t)field->shape.ndim * sizeof shape.dim[0]);
        LK_TRY(lk_tensor_new(field->dtype, shape, &s->tensor[f]));
        LK_TRY(lk_tensor_writable_data(s->tensor[f], &start));
        s->data[f] = start;
        s->bytes[f] = s->header.count > 0 ? lk__field_bytes(field) : 0;
        LK_TRY(lk_add_i64(row, s->bytes[f], &row));
    }
    s->piece = row > 0 && row < PIECE_BYTES ? PIECE_BYTES / row : 1;
    if (s->rank == s->root)
        LK_TRY(buffer_take(s));
    return LK_OK;
}

/* ---- samples ---- */

/* Piece `k` of rank `r`: positions in the order of the scatter. */
static lk_range piece_of(const struct scatter *s, int r, int64_t k)
{
    lk_range all = lk_scatter_range(s->header.count, r, s->size, s->header.equal_length);
    int64_t from = k * s->piece < all.n ? k * s->piece : all.n, left = all.n - from;
    return (lk_range){all.first + from, left < s->piece ? left : s->piece};
}

/* The root reads samples, field f to `to[f]`. */
static lk_status piece_read(const struct scatter *s, lk_range piece, char *const *to)
{
    for (int64_t i = 0; i < piece.n; i++) {
        int64_t index = piece.first + i;
        void *row[LK_MAX_FIELDS];
        if (s->shuffle)
            LK_TRY(lk_rng_permute(s->order, 0, s->header.count, piece.first + i, 1, &index));
        for (int f = 0; f < s->header.n_fields; f++)
            row[f] = to[f] + i * s->bytes[f];
        LK_TRY(lk__dataset_row(s->ds, index, row));
    }
    return LK_OK;
}

/* Piece `k` of rank `r` is sent, or kept if that is the root; `*read` says what became of reading it. */
static lk_status piece_give(struct scatter *s, int r, int64_t k, lk_status *read)
{
    lk_range piece = piece_of(s, r, k);
    char *to[LK_MAX_FIELDS];
    for (int f = 0; f < s->header.n_fields; f++)
        to[f] = r == s->root ? s->data[f] + (piece.first - s->mine.first) * s->bytes[f]
                             : s->buffer + s->at[f];
    *read = piece_read(s, piece, to);
    for (int f = 0; f < s->header.n_fields && *read == LK_OK && r != s->root; f++)
        if (piece.n * s->bytes[f] > 0)
            LK_TRY(lk_send(s->comm, to[f], piece.n * s->bytes[f], LK_U8, r, 0, s->header.name));
    return LK_OK;
}

/* Piece `k` of rank `r` could not be read: an empty message to each rank that waits for its next piece. */
static lk_status give_up(const struct scatter *s, int r, int64_t k)
{
    int64_t row = 0;
    for (int f = 0; f < s->header.n_fields; f++)
        row += s->bytes[f];
    for (int q = 0; q < s->size; q++)
        if (q != s->root && row > 0 && piece_of(s, q, q < r ? k + 1 : k).n > 0)
            LK_TRY(lk_send(s->comm, NULL, 0, LK_U8, q, 0, s->header.name));
    return LK_OK;
}

static lk_status give_all(struct scatter *s, lk_status *read)
{
    for (int64_t k = 0; piece_of(s, 0, k).n > 0; k++) /* no rank has more than the first */
        for (int r = 0; r < s->size; r++) {
            LK_TRY(piece_give(s, r, k, read));
            if (*read != LK_OK)
                return give_up(s, r, k);
        }
    return LK_OK;
}

/* The pieces of this rank, until the root gives up. */
static lk_status get_all(struct scatter *s)
{
    for (int64_t at = 0; at < s->mine.n; at += s->piece) {
        int64_t n = s->mine.n - at < s->piece ? s->mine.n - at : s->piece;
        for (int f = 0; f < s->header.n_fields; f++) {
            int64_t want = n * s->bytes[f];
            lk_message info;
            if (want == 0)
                continue;
            LK_TRY(lk_recv(s->comm, s->data[f] + at * s->bytes[f], want, LK_U8, s->root, 0,
                           s->header.name, &info));
            if (info.count == 0)
                return LK_OK;
            LK_CHECK(info.count == want, LK_EMISMATCH, "the root sends %lld bytes of %lld",
                     (long long)info.count, (long long)want);
        }
    }
    return LK_OK;
}

static lk_status set_make(const struct scatter *s, lk_dataset **out)
{
    lk_dataset_info info = {
        .name = s->header.name, .classes = s->header.classes, .n_fields = (int)s->header.n_fields};
    memcpy(info.field, s->header.field, sizeof info.field);
    if (info.n_fields == 0)
        LK_TRY(lk__dataset_new_empty(s->mine.n, out));
    else
        LK_TRY(lk_dataset_from_tensors(&info, s->tensor, out));
    return LK_OK;
}

static lk_status scatter(struct scatter *s, lk_dataset **out)
{
    lk_status read = LK_OK;
    LK_TRY(lk_bcast(s->comm, &s->header, sizeof s->header, LK_U8, s->root, "dataset"));
    LK_TRY(lk_agree(s->comm, memory_take(s)));
    if (s->rank == s->root)
        LK_TRY(give_all(s, &read));
    else
        LK_TRY(get_all(s));
    LK_TRY(lk_agree(s->comm, read));
    return LK_TRACE(lk_agree(s->comm, set_make(s, out)));
}

/* ---- the calls ---- */

static lk_status arguments_check(lk_comm *comm, const lk_dataset *ds,
                                 const lk_scatter_options *options)
{
    LK_CHECK(options->root >= 0 && options->root < lk_comm_size(comm), LK_EINVAL,
             "root %lld of %d ranks", (long long)options->root, lk_comm_size(comm));
    LK_CHECK(ds || lk_comm_rank(comm) != options->root, LK_EINVAL,
             "rank %lld is to scatter a set, but has none", (long long)options->root);
    return LK_OK;
}

/* `read` is what became of reading the options. */
static lk_status scatter_new(lk_comm *comm, lk_dataset *ds, const lk_scatter_options *options,
                             lk_status read, lk_dataset **out)
{
    lk_status st;
    LK_TRY(lk_agree(comm, read == LK_OK ? arguments_check(comm, ds, options) : read));
    struct scatter s = {.rank = lk_comm_rank(comm),
                        .size = lk_comm_size(comm),
                        .root = (int)options->root,
                        .ds = ds,
                        .shuffle = options->shuffle,
                        .order = lk_rng_start(options->seed, "data", "scatter")};
    if (s.rank == s.root)
        s.header = header_make(ds, options);
    LK_TRY_TO(done, lk_comm_dup(comm, &s.comm));
    LK_TRY_TO(done, scatter(&s, out));
done:
    for (int f = 0; f < LK_MAX_FIELDS; f++)
        lk_tensor_free(s.tensor[f]);
    lk_free(s.buffer);
    lk_comm_close(s.comm);
    if (st != LK_OK) {
        lk_dataset_free(*out);
        *out = NULL;
    }
    return st;
}

lk_status lk_scatter_dataset_options(lk_comm *comm, lk_dataset *ds,
                                     const lk_scatter_options *options, lk_dataset **out)
{
    LK_FP_GUARD();
    *out = NULL;
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    return LK_TRACE(scatter_new(comm, ds, options, LK_OK, out));
}

lk_status lk_scatter_dataset(lk_comm *comm, lk_dataset *ds, const char *options, lk_dataset **out)
{
    LK_FP_GUARD();
    lk_arena *arena = NULL;
    lk_scatter_options read = {0};
    *out = NULL;
    LK_CHECK(comm, LK_EINVAL, "comm is NULL");
    lk_status st = lk_arena_new(&arena);
    if (st == LK_OK)
        st = lk_options_parse(&lk_scatter_descriptor, options, arena, &read);
    lk_arena_free(arena); /* no option is a text */
    return LK_TRACE(scatter_new(comm, ds, &read, st, out));
}
