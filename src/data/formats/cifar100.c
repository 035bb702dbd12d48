/* cifar100: train.bin and test.bin, by their 100 fine or 20 coarse labels. */
#include "data/arrays/cifar.h"
#include "data/format.h"

struct cifar100_options {
    const char *path;
    bool coarse;
};

static const lk_option options[] = {
    LK_PATH_OPTION(struct cifar100_options, path,
                   "a folder with train.bin and test.bin, or one such file"),
    {.name = "coarse",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(struct cifar100_options, coarse),
     .help = "the 20 coarse labels instead of the 100 fine ones"},
    {.name = NULL},
};

static lk_status cifar100_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct cifar100_options *o = given;
    LK_CHECK(o->path, LK_EINVAL, "cifar100: give path, the folder to read");
    lk__cifar_kind kind = {.name = "CIFAR-100",
                           .train = {"train.bin"},
                           .test = {"test.bin"},
                           .label_bytes = 2,
                           .label = o->coarse ? 0 : 1,
                           .classes = o->coarse ? 20 : 100};
    LK_TRY(lk__cifar_open(&kind, o->path, split, out));
    LK_CHECK(*out || split != LK_TRAIN, LK_EIO, "%s: there is no train.bin", o->path);
    return LK_OK;
}

const lk_format lk__format_cifar100 = {
    .descriptor = {.name = "cifar100",
                   .summary = "CIFAR-100 in its binary form",
                   .details = "Images [32][32][3] of 100 classes, or of 20 with coarse.",
                   .options = options,
                   .options_size = sizeof(struct cifar100_options)},
    .open = cifar100_open,
};
