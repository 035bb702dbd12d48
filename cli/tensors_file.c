/* Tensors of files and checkpoints, for the verbs of `lockstep ckpt`. */
#include "tensors_file.h"

#include <stdio.h>
#include <string.h>

lk_status checkpoint_open(const char *path, lk_checkpoint **out)
{
    LK_TRY(lk_checkpoint_read(path, out));
    for (const char *line = (*out)->messages; *line; line += strcspn(line, "\n") + 1)
        fprintf(stderr, "warning: left out: %.*s\n", (int)strcspn(line, "\n"), line);
    return LK_OK;
}

lk_status tensors_open(const char *path, lk_tensors **out)
{
    lk_checkpoint *checkpoint;
    *out = NULL;
    if (!lk_checkpoint_exists(path))
        return lk_tensors_load(path, out);
    LK_TRY(checkpoint_open(path, &checkpoint));
    lk_status st = lk_tensors_load(checkpoint->path, out);
    lk_checkpoint_free(checkpoint);
    return LK_TRACE(st);
}

const char *tensors_metadata(const lk_tensors *t, const char *name)
{
    for (int64_t i = 0; i < t->n_metadata; i++)
        if (strcmp(t->metadata[i].name, name) == 0)
            return t->metadata[i].text;
    return NULL;
}
