/* Printing where two configurations of `lockstep verify` differ: from the step to the layer
 * and the tensor.
 *
 * The hashes of all steps say which step is the first; both configurations are then run again up to it,
 * so that no more than two snapshots are ever kept.
 */
#include "verify/difference.h"

#include "scratch.h"
#include "term.h"
#include "verb.h"
#include "verify/snapshot.h"

const char *verify_config_text(const verify_config *p, char buf[VERIFY_CONFIG_TEXT])
{
    snprintf(buf, VERIFY_CONFIG_TEXT, "layout %s, %d rank%s, %d thread%s, %s, %s, %s",
             p->layout->word, p->layout->ranks, plural(p->layout->ranks), p->threads,
             plural(p->threads), p->launcher ? p->launcher->mpi : "local", lk_isa_name(p->isa),
             p->algorithm ? p->algorithm : "auto");
    return buf;
}

/* Train up to a step and keep all of the state in a file. */
static bool snapshot(const verify_config *p, int64_t step, const char *path)
{
    verify_trace trace;
    char why[VERIFY_WHY];
    bool made = verify_trace_new(step, &trace) == LK_OK;
    if (!made)
        (void)verb_failed();
    made = made && verify_run(p, path, &trace, why) == LK_EXIT_DONE;
    verify_trace_free(&trace);
    return made;
}

/* Compare two snapshots, and say where they differ first. */
static lk_status snapshots_print(const char *first, const char *second)
{
    lk_safetensors *a = NULL, *b = NULL;
    char text[SNAPSHOT_TEXT];
    int differ;
    lk_status st;
    LK_TRY_TO(done, lk_safetensors_open(first, &a));
    LK_TRY_TO(done, lk_safetensors_open(second, &b));
    LK_TRY_TO(done, snapshot_compare(a, b, &differ, text));
    fprintf(stderr, "  first in %s\n", differ > 0 ? text : "no tensor, when both are run again");
done:
    lk_safetensors_close(a);
    lk_safetensors_close(b);
    return st;
}

static void explain(const verify_config *a, const verify_config *b, int64_t step)
{
    char folder[SCRATCH_PATH], first[SCRATCH_PATH + 16], second[SCRATCH_PATH + 16];
    if (scratch_make(NULL, "verify", folder) != LK_OK) {
        fprintf(stderr, "  %s\n", lk_error_message());
        return;
    }
    snprintf(first, sizeof first, "%s/a.safetensors", folder);
    snprintf(second, sizeof second, "%s/b.safetensors", folder);
    if (snapshot(a, step, first) && snapshot(b, step, second) &&
        snapshots_print(first, second) != LK_OK)
        (void)verb_failed();
    scratch_remove(folder);
}

void verify_print_difference(const verify_config *a, const verify_config *b,
                             const verify_difference *d)
{
    char one[VERIFY_CONFIG_TEXT], other[VERIFY_CONFIG_TEXT];
    fprintf(stderr, "error: after step %lld the bits differ between (%s) and (%s)\n",
            (long long)d->step, verify_config_text(a, one), verify_config_text(b, other));
    if (*d->text)
        fprintf(stderr, "  %s\n", d->text);
    if (d->state_step > d->step)
        fprintf(stderr, "  the states differ after step %lld\n", (long long)d->state_step);
    if (d->state_step > 0)
        explain(a, b, d->state_step);
}
