/* Rank files: X ranks on each host, spread over its sockets, each with equally many cores. */
#include "rankfile.h"

#include "plural.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool rankfile_hosts(rankfile *out, const char *command, char *list)
{
    out->n_hosts = 0;
    for (char *name = list, *next; name; name = next) {
        next = strchr(name, ',');
        if (next)
            *next++ = '\0';
        size_t n = 0;
        while (isalnum((unsigned char)name[n]) || (name[n] && strchr(".-_", name[n])))
            n++;
        if (n == 0 || name[n] != '\0') {
            fprintf(stderr, "error: %s: option --hosts: host %d has %s\n", command,
                    out->n_hosts + 1,
                    n == 0 && !name[0] ? "no name" : "a character that no host's name has");
            return false;
        }
        for (int i = 0; i < out->n_hosts; i++)
            if (strcmp(out->host[i], name) == 0) {
                fprintf(stderr, "error: %s: option --hosts: \"%s\" is in the list twice\n", command,
                        name);
                return false;
            }
        if (out->n_hosts == RANKFILE_MAX_HOSTS) {
            fprintf(stderr, "error: %s: option --hosts: at most %d\n", command, RANKFILE_MAX_HOSTS);
            return false;
        }
        out->host[out->n_hosts++] = name;
    }
    return true;
}

void rankfile_slot(const rankfile *f, int x, int *socket, int *first, int *last)
{
    int64_t ranks = f->mode.size[0], s = (int64_t)x * f->sockets / ranks;
    /* The ranks on this socket: those with the same s. */
    int64_t from = (s * ranks + f->sockets - 1) / f->sockets;
    int64_t to = ((s + 1) * ranks + f->sockets - 1) / f->sockets;
    *socket = (int)s;
    *first = (int)((x - from) * f->cores / (to - from));
    *last = (int)((x - from + 1) * f->cores / (to - from)) - 1;
}

bool rankfile_check(const rankfile *f, const char *command)
{
    char text[LK_TIER_SPEC_TEXT];
    double hosts = 1;
    for (int t = 1; t < f->mode.n_tiers; t++)
        hosts *= f->mode.size[t];
    lk_tier_spec_text(&f->mode, text);
    if (hosts != f->n_hosts) {
        fprintf(stderr, "error: %s: mode %s is for %.15g host%s, but --hosts names %d\n", command,
                text, hosts, hosts == 1 ? "" : "s", f->n_hosts);
        return false;
    }
    if ((int64_t)f->mode.size[0] * f->n_hosts > RANKFILE_MAX_RANKS) {
        fprintf(stderr, "error: %s: mode %s is for more than %d ranks\n", command, text,
                RANKFILE_MAX_RANKS);
        return false;
    }
    for (int x = 0; x < f->mode.size[0]; x++) {
        int socket, first, last;
        rankfile_slot(f, x, &socket, &first, &last);
        if (last >= first)
            continue;
        int cores = f->sockets * f->cores;
        fprintf(
            stderr,
            "error: %s: mode %s puts %d rank%s on a host, but a host has %d core%s (%d socket%s "
            "of %d)\n  say what the hosts have with --sockets and --cores\n",
            command, text, f->mode.size[0], plural(f->mode.size[0]), cores, plural(cores),
            f->sockets, plural(f->sockets), f->cores);
        return false;
    }
    return true;
}

void rankfile_print(const rankfile *f)
{
    for (int h = 0; h < f->n_hosts; h++)
        for (int x = 0; x < f->mode.size[0]; x++) {
            int socket, first, last;
            rankfile_slot(f, x, &socket, &first, &last);
            printf("rank %d=%s slot=%d:%d", h * f->mode.size[0] + x, f->host[h], socket, first);
            if (last > first)
                printf("-%d", last);
            putchar('\n');
        }
}
