/* lockstep ckpt import: arrays of NumPy, and tensors of other files, into one file. */
#include "ckpt/tensors.h"
#include "verb.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/lockstep.h>

enum { MOST_FILES = 1 << 16 };

/* All files that were read, and their tensors in one list. */
typedef struct collection {
    lk_tensors **file;
    int n_files;
    lk_named_tensor *tensor;
    int64_t n;
} collection;

static lk_status collect(char **path, int n, collection *c)
{
    int64_t all = 0;
    LK_TRY(lk_alloc_zero(&c->file, n, sizeof *c->file));
    for (; c->n_files < n; c->n_files++) {
        LK_TRY(tensors_open(path[c->n_files], &c->file[c->n_files]));
        all += c->file[c->n_files]->n;
    }
    LK_TRY(lk_alloc(&c->tensor, all, sizeof *c->tensor));
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < c->file[i]->n; k++)
            c->tensor[c->n++] = c->file[i]->tensor[k];
    return LK_OK;
}

static int import_run(const void *given, int n, char **operand)
{
    collection c = {0};
    (void)given;
    lk_status st = collect(operand, n - 1, &c);
    if (st == LK_OK)
        st = lk_tensors_save(operand[n - 1], c.tensor, c.n, n == 2 ? c.file[0]->metadata : NULL,
                             n == 2 ? c.file[0]->n_metadata : 0);
    for (int i = 0; i < c.n_files; i++)
        lk_tensors_free(c.file[i]);
    lk_free(c.file);
    lk_free(c.tensor);
    return st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
}

const lk__verb lk__ckpt_kind_import = {
    .name = "import",
    .summary = "write the arrays of one or more files to one file",
    .operands = "FILE... OUT",
    .about = "Writes all arrays of all files to OUT, such as weights.safetensors. The array of "
             "\"head.weight.npy\" becomes the tensor \"head.weight\"; a name may be there once.",
    .min_operands = 2,
    .max_operands = MOST_FILES,
    .run = import_run,
};
