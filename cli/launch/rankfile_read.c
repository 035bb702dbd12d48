/* Rank files of somebody else: `rank 0=host slot=0:0-3`, each rank once, in any order.
 *
 * Cores are for Open MPI to read: here they only have to look like some.
 */
#include "launch/lines.h"
#include "launch/rankfile.h"
#include "ranks.h"

#include <string.h>

struct reading {
    lines l;
    lk_arena *arena;
    rank_places *out;
    int room; /* for ranks */
};

static bool memory_lacks(const struct reading *r)
{
    fprintf(stderr, "error: %s: %s\n", r->l.command, lk_error_message());
    return false;
}

/* Room for rank `rank`. */
static bool room_make(struct reading *r, int rank)
{
    rank_places *p = r->out;
    int room = r->room > 0 ? r->room : 64;
    while (room <= rank)
        room *= 2;
    if (room > r->room) {
        rank_place *more;
        if (lk_arena_alloc(r->arena, &more, room, sizeof *more) != LK_OK)
            return memory_lacks(r);
        if (p->n > 0)
            memcpy(more, p->rank, sizeof *more * (size_t)p->n);
        p->rank = more;
        r->room = room;
    }
    p->n = rank >= p->n ? rank + 1 : p->n;
    return true;
}

/* The number of a host, which may be a new one. */
static bool host_number(struct reading *r, const char *name, size_t n, int *out)
{
    host_list *list = &r->out->hosts;
    for (*out = 0; *out < list->n; ++*out)
        if (strlen(list->item[*out].name) == n && strncmp(list->item[*out].name, name, n) == 0)
            return true;
    if (list->n == HOSTS_MAX) {
        lines_complain(&r->l, "more than %d hosts", HOSTS_MAX);
        return false;
    }
    if (lk_arena_text(r->arena, name, n, &list->item[list->n].name) != LK_OK)
        return memory_lacks(r);
    list->n++;
    return true;
}

/* Move behind a word, blanks and a "="; false if they are not there. */
static bool key_skip(const char **at, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0)
        return false;
    *at += n;
    *at += strspn(*at, " \t");
    if (**at != '=')
        return false;
    ++*at;
    *at += strspn(*at, " \t");
    return true;
}

/* "0:0-3", "1:0,2", "0-3", "p0:1": cores, perhaps of a socket. */
static bool is_slot(const char *at)
{
    at += *at == 'p' || *at == 'P';
    size_t n = strspn(at, "0123456789:,-*");
    return n > 0 && !at[n] && strpbrk(at, "0123456789*") != NULL;
}

static bool line_read(struct reading *r)
{
    const char *at = r->l.text;
    int rank = -1, number;
    if (strncmp(at, "rank", 4) == 0 && strchr(" \t", at[4])) {
        at += 4;
        at += strspn(at, " \t");
        rank = lines_number(&at, RANKS_MAX_PROCESSES - 1);
        at += strspn(at, " \t");
    }
    if (rank < 0 || !key_skip(&at, "")) {
        lines_complain(&r->l, "it begins with \"%.24s\", not with \"rank N=HOST\", N from 0 to %d",
                       r->l.text, RANKS_MAX_PROCESSES - 1);
        return false;
    }
    size_t n = lines_name(at);
    if (n == 0 || (at[n] && !strchr(" \t", at[n]))) {
        lines_complain(&r->l, "rank %d is on \"%.*s\", which is no name of a host", rank,
                       (int)strcspn(at, " \t"), at);
        return false;
    }
    const char *name = at;
    at += n;
    at += strspn(at, " \t");
    if (!key_skip(&at, "slot") || !is_slot(at)) {
        lines_complain(&r->l,
                       "behind the host of rank %d there is \"%.24s\", not slot=SOCKET:CORES", rank,
                       at);
        return false;
    }
    if (!room_make(r, rank) || !host_number(r, name, n, &number))
        return false;
    rank_place *p = &r->out->rank[rank];
    if (p->line > 0) {
        lines_complain(&r->l, "rank %d is in line %d as well", rank, p->line);
        return false;
    }
    *p = (rank_place){.host = number, .line = r->l.number};
    r->out->hosts.item[number].slots++;
    return true;
}

/* That all ranks are there. */
static bool is_complete(const struct reading *r)
{
    const rank_places *p = r->out;
    for (int i = 0; i < p->n; i++)
        if (p->rank[i].line == 0) {
            fprintf(stderr, "error: %s: %s has a rank %d, but no rank %d\n", r->l.command,
                    r->l.path, p->n - 1, i);
            return false;
        }
    if (p->n == 0)
        fprintf(stderr, "error: %s: %s has no rank\n", r->l.command, r->l.path);
    return p->n > 0;
}

bool rankfile_read(const char *command, const char *path, lk_arena *arena, rank_places *out)
{
    struct reading r = {.arena = arena, .out = out};
    int more = -1;
    *out = (rank_places){.n = 0};
    bool ready = lines_open(&r.l, command, path);
    if (ready && lk_arena_alloc(arena, &out->hosts.item, HOSTS_MAX, sizeof(host_entry)) != LK_OK)
        ready = memory_lacks(&r);
    while (ready && (more = lines_next(&r.l)) > 0)
        ready = line_read(&r);
    ready = ready && more == 0 && is_complete(&r);
    lines_close(&r.l);
    return ready;
}
