/* lockstep ckpt hash: what files hold, as 64 bits. */
#include "ckpt/tensors.h"
#include "report.h"
#include "verb.h"

#include <lockstep/lockstep.h>

#include <stdlib.h>

enum { MOST_FILES = 1 << 16 };

struct hash_options {
    bool json;
};

static const lk_option options[] = {
    {"json", LK_OPTION_FLAG, offsetof(struct hash_options, json),
     .help = "print one JSON object for each file"},
    {.name = NULL},
};

static const report_column columns[] = {{"hash", "hash", -16},
                                        {"state", "state", -16},
                                        {"format", "format", 1},
                                        {"tensors", "tensors", 1},
                                        {"file", "file", -1}};

static int hash_run(const void *given, int n, char **operand)
{
    const struct hash_options *o = given;
    report out;
    bool titled = false;
    int exit_status = LK_EXIT_DONE;
    for (int i = 0; i < n; i++) {
        lk_tensors *file;
        char text[LK_HASH_TEXT];
        lk_status st = tensors_open(operand[i], &file);
        if (st != LK_OK) {
            exit_status = verb_failed_with(st, NULL);
            continue;
        }
        if (!titled)
            report_begin(&out, columns, sizeof columns / sizeof columns[0], o->json);
        titled = true;
        bool run = lk_checkpoint_exists(operand[i]);
        const char *state = run ? tensors_metadata(file, "state") : NULL;
        const char *format = run ? tensors_metadata(file, "hash") : NULL;
        report_row(&out, (report_cell[]){cell_text(lk_hash_text(lk_tensors_hash(file), text)),
                                         state ? cell_text(state) : cell_none(),
                                         format ? cell_int(atoi(format)) : cell_none(),
                                         cell_int(file->n), cell_text(operand[i])});
        lk_tensors_free(file);
    }
    return exit_status;
}

const lk__verb lk__ckpt_kind_hash = {
    .name = "hash",
    .summary = "the hash of what files hold",
    .operands = "FILE...",
    .about =
        "Prints the hash of the names, types, shapes and bits of all tensors, in the order of "
        "their names. Metadata, the format and the order in the file do not matter: files with "
        "the same hash hold the same weights. Of a checkpoint also the hash of the run's "
        "state, which \"lockstep train\" prints, and the format of that hash: a state of "
        "format 1 was recorded by an older program and can be compared with nothing.",
    .options = options,
    .options_size = sizeof(struct hash_options),
    .min_operands = 1,
    .max_operands = MOST_FILES,
    .run = hash_run,
};
