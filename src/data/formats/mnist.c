/* mnist: a set in MNIST's form, wherever it is: in the folder given, as Debian's
 * dataset-fashion-mnist, or generated. */
#include "data/arrays/idx.h"
#include "data/fallback.h"
#include "data/format.h"

struct mnist_options {
    const char *path;
};

static const lk_option options[] = {
    LK_PATH_OPTION(struct mnist_options, path,
                   "a folder with train-images-idx3-ubyte and so on, plain or .gz"),
    {.name = NULL},
};

static lk_status mnist_open(const void *given, lk_split split, lk_dataset **out)
{
    const struct mnist_options *o = given;
    char found[LK_PATH_SIZE];
    const char *path = o->path;
    *out = NULL;
    if (split == LK_VALIDATION)
        return LK_OK;
    if (!path && lk__datasets_find("fashion-mnist", found))
        path = found;
    if (!path) {
        return LK_TRACE(lk__glyphs_instead("mnist", "28,28,1", 60000, 10000, split, out));
    }
    LK_TRY(lk__idx_folder(path, split, 10, out));
    LK_CHECK(*out, LK_EIO, "%s: there is no %s, plain or .gz", path,
             split == LK_TEST ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte");
    return LK_OK;
}

const lk_format lk__format_mnist = {
    .descriptor =
        {.name = "mnist",
         .summary = "images of ten classes in MNIST's form: given, installed or generated",
         .details = "Without path it takes Fashion-MNIST where Debian's dataset-fashion-mnist "
                    "is installed (below the folder LK_DATASETS, by default "
                    "/usr/share/datasets), otherwise generated glyphs, with a message.",
         .options = options,
         .options_size = sizeof(struct mnist_options)},
    .open = mnist_open,
};
