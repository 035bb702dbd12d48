/* The table of lk_loader_options, which experiments and lk_loader_new() read, and the number of shards that
 * follows from them.  Any thread.
 */
#include <lockstep/data.h>

#include <math.h>
#include <stddef.h>

static const lk_option options[] = {
    {.name = "batch",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_loader_options, batch),
     .value = "N",
     .def = "128",
     .min = 1,
     .max = 1e9,
     .help = "samples of a batch, over all ranks"},
    {.name = "shards",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_loader_options, shards),
     .value = "N",
     .def = "8",
     .min = 1,
     .max = 65536,
     .help =
         "pieces of a batch whose sums are joined by the fixed tree; as many ranks can share it.  "
         "All have the same size but the last, so that there may be fewer: of 19 samples 5, not 6"},
    {.name = "shuffle",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(lk_loader_options, shuffle),
     .def = "true",
     .help = "take the samples in another order each epoch"},
    {.name = "shuffle_buffer",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_loader_options, shuffle_buffer),
     .value = "N",
     .def = "0",
     .min = 0,
     .max = 1e12,
     .flags = LK_OPTION_NO_HASH, /* the identity of a run has its size in effect */
     .help = "read samples in the order of the files, and shuffle N of them at a time; 0: of a "
             "stream as many as take 128 MiB, of other sets none, their samples are taken in any "
             "order"},
    {.name = "normalise",
     .type = LK_OPTION_CHOICE,
     .offset = offsetof(lk_loader_options, normalise),
     .def = "auto",
     .choices = "auto none unit standard",
     .help = "auto: bytes are divided by 255; unit: all values are; standard: then minus the mean, "
             "divided by the deviation of each channel"},
    {.name = "mean",
     .type = LK_OPTION_REALS,
     .offset = offsetof(lk_loader_options, mean),
     .value = "M,...",
     .help = "means of the channels, or one for all; default: measured over the training set"},
    {.name = "std",
     .type = LK_OPTION_REALS,
     .offset = offsetof(lk_loader_options, std),
     .value = "S,...",
     .max = (double)INFINITY,
     .flags = LK_OPTION_OPEN_MIN,
     .help = "deviations of the channels, or one for all; default: measured"},
    {.name = "scale",
     .type = LK_OPTION_REAL,
     .offset = offsetof(lk_loader_options, scale),
     .def = "1",
     .help = "multiply normalised values"},
    {.name = "shift",
     .type = LK_OPTION_REAL,
     .offset = offsetof(lk_loader_options, shift),
     .def = "0",
     .help = "add to normalised values, after scale"},
    {.name = "crop",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_loader_options, crop),
     .value = "N",
     .def = "0",
     .min = 0,
     .max = 1e6,
     .help = "move images at random by up to N pixels in each direction"},
    {.name = "flip",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(lk_loader_options, flip),
     .help = "mirror the columns of every second image, at random"},
    {.name = "one_hot",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(lk_loader_options, one_hot),
     .help = "give labels as rows that are 1 at the class and 0 elsewhere"},
    {.name = "samples",
     .type = LK_OPTION_REAL,
     .offset = offsetof(lk_loader_options, samples),
     .def = "0",
     .min = 0,
     .max = 1e15,
     .flags = LK_OPTION_LATER,
     .help = "train on a choice of the training set's samples, which the seed decides: below 1 "
             "their share, else their number; 0: on all"},
    {.name = "validation",
     .type = LK_OPTION_REAL,
     .offset = offsetof(lk_loader_options, validation),
     .def = "0",
     .min = 0,
     .max = 1e15,
     .help = "samples of the training set that are kept for validation: below 1 their share, else "
             "their number"},
    {.name = "prefetch",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_loader_options, prefetch),
     .value = "N",
     .def = "2",
     .min = 0,
     .max = 64,
     .flags = LK_OPTION_NO_HASH,
     .help =
         "batches that are prepared ahead on threads of their own, at least as many as readers; "
         "0: none, as with a set in memory when the threads of the ranks leave no core for it"},
    {.name = "readers",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_loader_options, readers),
     .value = "N",
     .def = "1",
     .min = 1,
     .max = 64,
     .flags = LK_OPTION_NO_HASH,
     .help = "threads of each rank that prepare them: read, check, decode and convert"},
    {.name = "keep",
     .type = LK_OPTION_INT,
     .offset = offsetof(lk_loader_options, keep),
     .value = "MIB",
     .def = "256",
     .min = 0,
     .max = 1e9,
     .flags = LK_OPTION_NO_HASH,
     .help = "MiB of memory up to which a rank keeps a set of files, so that it is read once; not "
             "where that is more than an eighth of its share of the memory that is available, nor "
             "under a limit of memory (ulimit -d, -v); 0: none"},
    {.name = "cache",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(lk_loader_options, cache),
     .value = "PATH",
     .flags = LK_OPTION_NO_HASH,
     .help = "a file for what this rank reads of every sample, made if it is not there; {rank} and "
             "{size} in it become the number of the rank's tile and the grid of tiles, 0 and 1 "
             "without tiles; stages follow behind a dot"},
    {.name = NULL},
};

int64_t lk_loader_options_shards(const lk_loader_options *o)
{
    int64_t piece = (o->batch - 1) / o->shards + 1;
    return (o->batch - 1) / piece + 1;
}

const lk_descriptor lk_loader_descriptor = {
    .name = "loader",
    .summary = "how batches are made of a set",
    .options = options,
    .options_size = sizeof(lk_loader_options),
};
