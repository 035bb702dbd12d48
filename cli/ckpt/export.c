/* lockstep ckpt export: tensors of a file to one of another format. */
#include "ckpt/tensors.h"
#include "verb.h"

#include <lockstep/extra/suggest.h>
#include <lockstep/lockstep.h>

struct export_options {
    const char *tensor;
};

static const lk_option options[] = {
    {"tensor", LK_OPTION_TEXT, offsetof(struct export_options, tensor), .value = "NAME",
     .help = "write this tensor alone, as a .npy file must"},
    {.name = NULL},
};

/* Write the tensor of this name. */
static lk_status export_one(const lk_tensors *file, const char *from, const char *name,
                            const char *path)
{
    lk_named_tensor one = {name, lk_tensors_find(file, name)};
    if (!one.tensor) {
        lk_suggestion s = {.wanted = name};
        for (int64_t i = 0; i < file->n; i++)
            lk_suggest_consider(&s, file->tensor[i].name);
        bool found = lk_suggest_found(&s);
        return LK_RAISE(LK_EINVAL, "%s has no tensor \"%s\"%s%s%s", from, name,
                        found ? "; did you mean \"" : "", found ? s.best : "", found ? "\"?" : "");
    }
    return lk_tensors_save(path, &one, 1, file->metadata, file->n_metadata);
}

static int export_run(const void *given, int n, char **operand)
{
    const struct export_options *o = given;
    lk_tensors *file;
    (void)n;
    lk_status st = tensors_open(operand[0], &file);
    if (st != LK_OK)
        return verb_failed_with(st, NULL);
    st = o->tensor
             ? export_one(file, operand[0], o->tensor, operand[1])
             : lk_tensors_save(operand[1], file->tensor, file->n, file->metadata, file->n_metadata);
    lk_tensors_free(file);
    return st == LK_OK ? LK_EXIT_DONE : verb_failed_with(st, NULL);
}

const lk__verb lk__ckpt_kind_export = {
    .name = "export",
    .summary = "write the tensors of a file in another format",
    .operands = "FILE OUT",
    .about = "Writes all tensors of a file, or one of them, to OUT, whose suffix says the format: "
             ".npz or .npy for NumPy, or .safetensors. Values keep their bits.",
    .options = options,
    .options_size = sizeof(struct export_options),
    .min_operands = 2,
    .max_operands = 2,
    .run = export_run,
};
