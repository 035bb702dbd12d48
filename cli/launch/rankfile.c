/* Writing rank files: X ranks on each host, spread over its sockets, each with equally many cores.
 */
#include "launch/rankfile.h"

#include "ranks.h"
#include "term.h"

/* Whether set `x` has a core that no other set has. */
static bool set_place(const rankfile *f, int x, int *socket, int *first, int *last)
{
    int64_t sets = f->sets, s = (int64_t)x * f->sockets / sets;
    /* The sets on this socket: those with the same s. */
    int64_t from = (s * sets + f->sockets - 1) / f->sockets;
    int64_t to = ((s + 1) * sets + f->sockets - 1) / f->sockets;
    *socket = (int)s;
    *first = (int)((x - from) * f->cores / (to - from));
    *last = (int)((x - from + 1) * f->cores / (to - from)) - 1;
    return *last >= *first;
}

void rankfile_slot(const rankfile *f, int x, int *socket, int *first, int *last)
{
    if (!set_place(f, x, socket, first, last))
        *last = *first;
}

bool rankfile_check_hosts(const rankfile *f, const char *command)
{
    char text[LK_TIER_SPEC_TEXT];
    double hosts = 1;
    for (int t = 1; t < f->mode.n_tiers; t++)
        hosts *= f->mode.size[t];
    lk_tier_spec_text(&f->mode, text);
    if (hosts != f->hosts.n) {
        fprintf(stderr, "error: %s: mode %s is for %.15g host%s, but %d %s named\n", command, text,
                hosts, hosts == 1 ? "" : "s", f->hosts.n, f->hosts.n == 1 ? "is" : "are");
        return false;
    }
    if ((int64_t)f->mode.size[0] * f->hosts.n > RANKS_MAX_PROCESSES) {
        fprintf(stderr, "error: %s: mode %s is for more than %d ranks\n", command, text,
                RANKS_MAX_PROCESSES);
        return false;
    }
    return true;
}

/* Of the sets that the ranks of a host have: whether each has a core of its own. */
static bool are_apart(const rankfile *f)
{
    for (int x = 0; x < f->mode.size[0]; x++) {
        int socket, first, last;
        if (!set_place(f, x, &socket, &first, &last))
            return false;
    }
    return true;
}

bool rankfile_check_cores(const rankfile *f, const char *command)
{
    char text[LK_TIER_SPEC_TEXT];
    int ranks = f->mode.size[0], cores = f->sockets * f->cores;
    bool apart = are_apart(f);
    lk_tier_spec_text(&f->mode, text);
    for (int h = 0; h < f->hosts.n; h++) {
        const host_entry *it = &f->hosts.item[h];
        if (it->slots > 0 && ranks <= it->slots) /* it takes them, whatever it has */
            continue;
        if (it->slots > 0) {
            fprintf(stderr, "error: %s: mode %s puts %d rank%s on host %s, which has %d slot%s\n",
                    command, text, ranks, plural(ranks), it->name, it->slots, plural(it->slots));
            return false;
        }
        if (apart)
            continue;
        fprintf(stderr,
                "error: %s: mode %s puts %d rank%s on a host, but host %s has %d core%s (%d "
                "socket%s of %d) in %d set%s\n"
                "  ranks may share cores where a host has slots: %s:%d\n",
                command, text, ranks, plural(ranks), it->name, cores, plural(cores), f->sockets,
                plural(f->sockets), f->cores, f->sets, plural(f->sets), it->name, ranks);
        return false;
    }
    return true;
}

void rankfile_write(const rankfile *f, FILE *to)
{
    for (int h = 0; h < f->hosts.n; h++)
        for (int x = 0; x < f->mode.size[0]; x++) {
            int socket, first, last;
            rankfile_slot(f, x, &socket, &first, &last);
            fprintf(to, "rank %d=%s slot=%d:%d", h * f->mode.size[0] + x, f->hosts.item[h].name,
                    socket, first);
            if (last > first)
                fprintf(to, "-%d", last);
            fputc('\n', to);
        }
}
