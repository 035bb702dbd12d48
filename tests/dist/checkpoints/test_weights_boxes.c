/* Files of weights of which each rank holds a part: they are those of one rank that holds all. */
#include "box_folders.h"
#include "held_models.h"

#include <errno.h>

enum { FILE_BYTES = 1 << 16 };

/* The bytes of a file, which the test frees. */
static unsigned char *file_bytes(const char *path, size_t *n)
{
    unsigned char *bytes = malloc(FILE_BYTES);
    FILE *f = fopen(path, "rb");
    ASSERT_TRUE(f && bytes);
    *n = fread(bytes, 1, FILE_BYTES, f);
    ASSERT_EQ(fclose(f), 0);
    return bytes;
}

/* A file of weights that ranks write together is that of one rank, and boxes of it can be read. */
RANKS_TEST(weights_are_written_and_read_by_boxes)
{
    static const lk_metadata notes[] = {{"step", "12"}, {"by", "a test"}};
    char path[PATH], made[NAME], want[NAME];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    snprintf(made, sizeof made, "%s/w.safetensors", path);
    snprintf(want, sizeof want, "%s/want.safetensors", path);
    for (int how = 0; how < N_CUTS; how++) {
        boxed_at(&b, how, (box_cut)how, rank, size);
        ASSERT_OK(lk_safetensors_write_boxes(comm, made, b.tensor, STATE_TENSORS, notes, 2));
        if (rank == 0) {
            lk_named_tensor named[STATE_TENSORS];
            test_state all;
            test_state_at(&all, how);
            for (int i = 0; i < STATE_TENSORS; i++) {
                void *data;
                named[i].name = all.tensor[i].name;
                ASSERT_OK(
                    lk_tensor_new(all.tensor[i].dtype, all.tensor[i].shape, &named[i].tensor));
                ASSERT_OK(lk_tensor_writable_data(named[i].tensor, &data));
                int64_t n = lk_tensor_count(named[i].tensor);
                if (n > 0)
                    memcpy(data, all.tensor[i].data,
                           (size_t)n * lk_dtype_size(all.tensor[i].dtype));
            }
            ASSERT_OK(lk_safetensors_write(want, named, STATE_TENSORS, notes, 2));
            size_t n, m;
            unsigned char *is = file_bytes(made, &n), *was = file_bytes(want, &m);
            ASSERT_EQ(n, m);
            ASSERT_SAME_BITS(is, was, n);
            free(is);
            free(was);
            for (int i = 0; i < STATE_TENSORS; i++)
                lk_tensor_free(named[i].tensor);
        }
        ASSERT_OK(lk_barrier(comm, "written"));
        lk_safetensors *f;
        ASSERT_OK(lk_safetensors_open(made, &f));
        box_cut other = (box_cut)((how + 3) % N_CUTS);
        boxed_at(&b, 999, other, rank, size);
        for (int i = 0; i < STATE_TENSORS; i++)
            ASSERT_OK(lk_safetensors_read_box(f, lk_safetensors_find(f, b.tensor[i].name),
                                              &b.box[i], b.data[i]));
        test_state_fill(&b.all, how);
        boxed_expect(&b, how, other, rank, size);
        lk_box out = lk_box_whole(2, (const int64_t[]){7, 12});
        ASSERT_FAILS(lk_safetensors_read_box(f, lk_safetensors_find(f, "fc1.weight"), &out, b.data),
                     LK_ESHAPE, "not within the tensor \"fc1.weight\", which is [7,11]");
        lk_safetensors_close(f);
        ASSERT_OK(lk_barrier(comm, "read"));
    }
    folder_remove(comm, path);
}

/* Ranks that give other tensors, or the same in another order, are told; nothing is written. */
RANKS_TEST(ranks_must_give_the_same_tensors)
{
    char path[PATH], made[NAME];
    double w[2] = {1, 2}, v[2] = {10, 20};
    const lk_box none = {.ndim = 1};
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm), last = size - 1;
    lk_state_tensor tensor[] = {
        {.name = "w", .dtype = LK_F64, .shape = LK_SHAPE(2), .data = w},
        {.name = "v", .dtype = LK_F64, .shape = LK_SHAPE(2), .data = v},
    };
    lk_hash h = lk_hash_start();
    folder_new(comm, path);
    snprintf(made, sizeof made, "%s/w.safetensors", path);
    for (int i = 0; i < 2 && rank != last; i++)
        tensor[i].box = &none;
    if (rank == last && size > 1) {
        lk_state_tensor first = tensor[0];
        tensor[0] = tensor[1];
        tensor[1] = first;
    }
    if (size > 1) {
        ASSERT_FAILS(lk_safetensors_write_boxes(comm, made, tensor, 2, NULL, 0), LK_ESTATE,
                     "its tensors are not those of rank 0");
        ASSERT_TRUE(access(made, F_OK) != 0);
    }
    ASSERT_FAILS(lk_safetensors_write_boxes(comm, made, rank == last ? NULL : tensor, 2, NULL, 0),
                 LK_EINVAL, "path or tensors are NULL");
    held_model m = held_make((held_size){16, 40}, 9, (lk_range){0, HELD_BLOCKS}, false);
    ASSERT_FAILS(lk_weights_save(comm, rank == last ? NULL : m.model, made, NULL, 0), LK_EINVAL,
                 "model is NULL");
    ASSERT_FAILS(lk_weights_save(comm, m.model, rank == last ? NULL : made, NULL, 0), LK_EINVAL,
                 "path or tensors are NULL");
    held_free(&m);
    ASSERT_FAILS(lk_state_hash(comm, tensor, rank == last ? -1 : 2, &h), LK_EINVAL,
                 "tensors are NULL, or their number is negative");
    folder_remove(comm, path);
}

/* A file that cannot be written is not there, and no rank thinks it is. */
RANKS_TEST(weights_that_cannot_be_written_are_nowhere)
{
    static const lk__storage_call calls[] = {LK__STORAGE_OPEN, LK__STORAGE_WRITE, LK__STORAGE_SYNC,
                                             LK__STORAGE_RENAME};
    char path[PATH], made[NAME];
    boxed_state b;
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    snprintf(made, sizeof made, "%s/w.safetensors", path);
    for (int i = 0; i < 4; i++) {
        boxed_at(&b, 1, CUT_COLUMNS, rank, size);
        if (rank == 0)
            lk__storage_fail(calls[i], 1, ENOSPC, false);
        ASSERT_OK(lk_barrier(comm, "ready"));
        ASSERT_FAILS(lk_safetensors_write_boxes(comm, made, b.tensor, STATE_TENSORS, NULL, 0),
                     LK_EIO, strerror(ENOSPC));
        ASSERT_TRUE(!lk__path_exists(made));
    }
    boxed_at(&b, 1, CUT_COLUMNS, rank, size);
    b.box[0].n[0] = 6;
    ASSERT_FAILS(lk_safetensors_write_boxes(comm, made, b.tensor, STATE_TENSORS, NULL, 0),
                 LK_EINVAL, "tensor \"fc1.weight\" [7,11]: no rank holds its element [6,0]");
    ASSERT_TRUE(!lk__path_exists(made));
    ASSERT_OK(lk_safetensors_write_boxes(comm, made, NULL, 0, NULL, 0));
    folder_remove(comm, path);
}

/* Models write what they hold together, and others read what they hold of it. */
RANKS_TEST(models_write_their_weights_together)
{
    static const held_size small = {16, 40};
    enum { SEED = 9 };
    char path[PATH], made[NAME], want[NAME];
    int rank = lk_comm_rank(comm), size = lk_comm_size(comm);
    folder_new(comm, path);
    snprintf(made, sizeof made, "%s/w.safetensors", path);
    snprintf(want, sizeof want, "%s/want.safetensors", path);
    held_model h = held_make(small, SEED, held_blocks(rank, size), false);
    ASSERT_OK(lk_weights_save(comm, h.model, made, NULL, 0));
    held_free(&h);
    if (rank == 0) {
        size_t n, m;
        h = held_make(small, SEED, (lk_range){0, HELD_BLOCKS}, false);
        ASSERT_OK(lk_weights_save(NULL, h.model, want, NULL, 0));
        unsigned char *is = file_bytes(made, &n), *was = file_bytes(want, &m);
        ASSERT_TRUE(n == m && n < FILE_BYTES);
        ASSERT_SAME_BITS(is, was, n);
        free(is);
        free(was);
        held_free(&h);
    }
    lk_range other = held_blocks(size - 1 - rank, size);
    h = held_make(small, SEED + 1, other, false);
    ASSERT_OK(lk_weights_load(h.model, made));
    held_expect(&h, small, SEED, other);
    held_free(&h);
    if (size > 1) { /* the first blocks are held by nobody */
        h = held_make(small, SEED, (lk_range){1, HELD_BLOCKS - 1}, false);
        ASSERT_FAILS(lk_weights_save(comm, h.model, made, NULL, 0), LK_EINVAL,
                     "no rank holds its element [0,0,0]");
        held_free(&h);
    }
    folder_remove(comm, path);
}
