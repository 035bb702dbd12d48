/* {rank} and {size} in paths of an experiment, replaced so that every rank can have a file of its
 * own: lk_path_expand() for one, lk_experiment_expand() for all of an experiment.  Any thread. */
#include <lockstep/config.h>

#include <string.h>

/* The number that the word between braces stands for; -1 if it stands for none. */
static int number_of(const char *word, size_t n, int rank, int size)
{
    if (n == 4 && memcmp(word, "rank", 4) == 0)
        return rank;
    return n == 4 && memcmp(word, "size", 4) == 0 ? size : -1;
}

lk_status lk_path_expand(const char *path, int rank, int size, lk_arena *arena, const char **out)
{
    *out = NULL;
    LK_CHECK(rank >= 0 && rank < size, LK_EINVAL, "rank %d of %d", rank, size);
    char *text;
    size_t used = 0;
    LK_TRY(lk_arena_alloc(arena, &text, (int64_t)strlen(path) * 2 + 1, 1)); /* 6 bytes give 11 */
    for (const char *at = path; *at;) {
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if (!end) {
            text[used++] = *at++;
            continue;
        }
        int n = number_of(at + 1, (size_t)(end - at - 1), rank, size);
        LK_CHECK(n >= 0, LK_EINVAL, "\"%s\": braces may hold rank or size, not \"%.*s\"", path,
                 (int)(end - at - 1), at + 1);
        char number[16];
        int digits = snprintf(number, sizeof number, "%d", n);
        memcpy(text + used, number, (size_t)digits);
        used += (size_t)digits;
        at = end + 1;
    }
    *out = text;
    return LK_OK;
}

static lk_status expand_config(const lk_config *config, int rank, int size, lk_arena *arena)
{
    const lk_option *o = config->descriptor->options;
    for (; o && o->name; o++) {
        bool path = o->type == LK_OPTION_TEXT && o->value && strncmp(o->value, "PATH", 4) == 0;
        const char **field = (const char **)(void *)((char *)config->options + o->offset);
        if (path && *field)
            LK_TRY(lk_path_expand(*field, rank, size, arena, field));
    }
    return LK_OK;
}

lk_status lk_experiment_expand(lk_experiment *e, int rank, int size)
{
    LK_TRY(expand_config(&e->data, rank, size, e->arena));
    if (e->train.output)
        LK_TRY(lk_path_expand(e->train.output, rank, size, e->arena, &e->train.output));
    return LK_OK;
}
