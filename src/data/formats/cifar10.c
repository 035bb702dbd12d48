/* cifar10: data_batch_1.bin to data_batch_5.bin and test_batch.bin, or generated. */
#include "data/arrays/cifar.h"
#include "data/fallback.h"
#include "data/format.h"

struct cifar10_options {
    const char *path;
};

static const lk_option options[] = {
    LK_PATH_OPTION(struct cifar10_options, path,
                   "a folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin, or one "
                   "such file"),
    {.name = NULL},
};

static const lk__cifar_kind kind = {
    .name = "CIFAR-10",
    .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
              "data_batch_5.bin"},
    .test = {"test_batch.bin"},
    .label_bytes = 1,
    .classes = 10,
};

static lk_status cifar10_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct cifar10_options *o = given;
    char found[LK_PATH_SIZE];
    const char *path = o->path;
    *out = NULL;
    if (split == LK_VALIDATION)
        return LK_OK;
    if (!path && lk__datasets_find("cifar-10-batches-bin", found))
        path = found;
    if (!path) {
        return LK_TRACE(lk__glyphs_instead("cifar10", "32,32,3", 50000, 10000, split, out));
    }
    LK_TRY(lk__cifar_open(&kind, path, split, out));
    LK_CHECK(*out || split == LK_TEST, LK_EIO, "%s: there is no %s", path, kind.train[0]);
    return LK_OK;
}

const lk_format lk__format_cifar10 = {
    .descriptor =
        {.name = "cifar10",
         .summary = "CIFAR-10 in its binary form: given, installed or generated",
         .details = "Images [32][32][3] of ten classes. Without path it takes the folder "
                    "cifar-10-batches-bin below LK_DATASETS (by default /usr/share/datasets), "
                    "otherwise generated glyphs of that shape, with a message.",
         .options = options,
         .options_size = sizeof(struct cifar10_options)},
    .open = cifar10_open,
};
