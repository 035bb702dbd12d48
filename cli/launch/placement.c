/* placement: hosts, accelerators, racks and aisles as the dimensions of a mode, and back: see
 * placement.h. */
#include "launch/placement.h"

#include "launch/line.h"
#include "ranks.h"
#include "term.h"
#include "verb.h"

#include <string.h>

/* The names of a mode's dimensions as DDL's launcher has them. */
static const struct {
    const char *option, *of;
} dimensions[LK_MAX_TIERS] = {{"accelerators", "ranks on a host"},
                              {"nodes", "hosts in a rack"},
                              {"racks", "racks in an aisle"},
                              {"aisles", "aisles"}};

static int64_t given_dimension(const run_options *o, int tier)
{
    return tier == 0 ? o->accelerators : tier == 1 ? o->nodes : tier == 2 ? o->racks : o->aisles;
}

static const char *mode_text(const placement *p, char out[LK_TIER_SPEC_TEXT])
{
    lk_tier_spec_text(&p->file.mode, out);
    return out;
}

/* ---- a rank file that is given ---- */

static int rankfile_take(const run_options *o, placement *p)
{
    char mode[LK_TIER_SPEC_TEXT];
    if (o->host || o->hostfile || o->accelerators || o->nodes || o->racks || o->aisles)
        return verb_refuse(RUN_COMMAND
                           ": option --rankfile: it says which ranks are on which hosts; "
                           "--host, --hostfile, --accelerators, --nodes, --racks and "
                           "--aisles do not go with it");
    if (!rankfile_read(RUN_COMMAND, o->rankfile, p->arena, &p->given))
        return LK_EXIT_USAGE;
    p->n = p->given.n;
    p->declared = p->file.mode.n_tiers > 0;
    if (o->n > 0 && o->n != p->n)
        return verb_refuse(RUN_COMMAND ": option -n: %lld, but %s has %d rank%s", (long long)o->n,
                           o->rankfile, p->n, plural(p->n));
    if (lk_tier_spec_fit(&p->file.mode, p->n) != LK_OK)
        return verb_refuse(RUN_COMMAND ": %s (%s)", lk_error_message(), o->rankfile);
    if (o->verbose)
        fprintf(stderr,
                RUN_COMMAND ": %s: %d rank%s on %d host%s, mode %s; the hosts are not looked at\n",
                o->rankfile, p->n, plural(p->n), p->given.hosts.n, plural(p->given.hosts.n),
                mode_text(p, mode));
    return LK_EXIT_DONE;
}

/* ---- dimensions ---- */

/* Of a mode with dimensions: what else is given must say the same. */
static int dimensions_check(const run_options *o, placement *p)
{
    char mode[LK_TIER_SPEC_TEXT];
    const lk_tier_spec *m = &p->file.mode;
    for (int t = 1; t < LK_MAX_TIERS; t++) {
        int has = t < m->n_tiers ? m->size[t] : 1;
        if (given_dimension(o, t) > 0 && given_dimension(o, t) != has)
            return verb_refuse(RUN_COMMAND ": option --%s: %lld %s, but mode %s has %d",
                               dimensions[t].option, (long long)given_dimension(o, t),
                               dimensions[t].of, mode_text(p, mode), has);
    }
    if (o->accelerators > 0 && o->accelerators < m->size[0])
        return verb_refuse(RUN_COMMAND
                           ": option --accelerators: %lld on a host, but mode %s puts %d "
                           "ranks there",
                           (long long)o->accelerators, mode_text(p, mode), m->size[0]);
    p->file.sets = o->accelerators > 0 ? (int)o->accelerators : m->size[0];
    p->declared = true;
    return LK_EXIT_DONE;
}

/* Ranks on each host, where no mode says it: accelerators, or a share of -n, or slots; 0: as many as there
 * are cores. */
static int ranks_choose(const run_options *o, placement *p, int *out)
{
    const host_list *hosts = &p->file.hosts;
    *out = (int)o->accelerators;
    if (*out > 0)
        return LK_EXIT_DONE;
    if (o->n > 0 && o->n % hosts->n != 0)
        return verb_refuse(RUN_COMMAND ": option -n: %lld ranks cannot be shared by %d hosts",
                           (long long)o->n, hosts->n);
    *out = o->n > 0 ? (int)o->n / hosts->n : hosts->item[0].slots;
    for (int h = 1; h < hosts->n && o->n == 0; h++)
        if (hosts->item[h].slots != *out)
            return verb_refuse(RUN_COMMAND ": host %s has %d slot%s and host %s %d (0: not said): "
                                           "say how many ranks are on each with --accelerators or "
                                           "--mode",
                               hosts->item[0].name, *out, plural(*out), hosts->item[h].name,
                               hosts->item[h].slots);
    return LK_EXIT_DONE;
}

/* Of a mode without dimensions: DDL's four, from what is given. */
static int dimensions_make(const run_options *o, placement *p)
{
    const int hosts = p->file.hosts.n;
    const int64_t racks = o->racks > 0 ? o->racks : 1, aisles = o->aisles > 0 ? o->aisles : 1;
    const int64_t share = hosts / (racks * aisles), even = share > 0 ? share : 1;
    const int64_t nodes = o->nodes > 0 ? o->nodes : even, all = nodes * racks * aisles;
    int ranks, status = ranks_choose(o, p, &ranks);
    if (status != LK_EXIT_DONE)
        return status;
    if (all != hosts)
        return verb_refuse(RUN_COMMAND ": %lld hosts in a rack, %lld racks in an aisle and %lld "
                                       "aisles are %lld hosts, but %d %s named",
                           (long long)nodes, (long long)racks, (long long)aisles, (long long)all,
                           hosts, hosts == 1 ? "is" : "are");
    p->file.mode.n_tiers = LK_MAX_TIERS;
    p->file.mode.size[0] = ranks;
    p->file.mode.size[1] = (int)nodes;
    p->file.mode.size[2] = (int)racks;
    p->file.mode.size[3] = (int)aisles;
    p->file.sets = ranks;
    p->declared = racks * aisles > 1;
    return LK_EXIT_DONE;
}

/* Hosts that are named, or this one; none where a batch system has them. */
static int hosts_take(const run_options *o, placement *p)
{
    bool found = true;
    if (o->host && o->hostfile)
        return verb_refuse(RUN_COMMAND ": options --host and --hostfile: give one of them");
    if (o->host)
        found = hosts_parse(RUN_COMMAND, "host", o->host, p->arena, &p->file.hosts);
    else if (o->hostfile)
        found = hosts_read(RUN_COMMAND, o->hostfile, p->arena, &p->file.hosts);
    else if (launch_is_here(NULL))
        found = hosts_here(RUN_COMMAND, p->arena, &p->file.hosts);
    return found ? LK_EXIT_DONE : LK_EXIT_USAGE;
}

/* What is known without the hosts. */
static int mode_alone(const run_options *o, bool threads, placement *p)
{
    for (int t = 0; t < LK_MAX_TIERS; t++)
        if (given_dimension(o, t) > 0)
            return verb_refuse(RUN_COMMAND ": option --%s: %s", dimensions[t].option,
                               threads ? "ranks that are threads are on this host"
                                       : "the batch system has the hosts: name them with --host");
    if (p->file.mode.n_tiers > 0)
        p->declared = true;
    return LK_EXIT_DONE;
}

/* The number of ranks by the mode, which -n must not contradict. */
static int ranks_count(const run_options *o, placement *p)
{
    char mode[LK_TIER_SPEC_TEXT];
    double n = 1;
    for (int t = 0; t < p->file.mode.n_tiers; t++)
        n *= p->file.mode.size[t];
    p->n = p->file.mode.n_tiers > 0 && n <= RANKS_MAX_PROCESSES ? (int)n : (int)o->n;
    if (n > RANKS_MAX_PROCESSES)
        return verb_refuse(RUN_COMMAND ": mode %s is for more than %d ranks", mode_text(p, mode),
                           RANKS_MAX_PROCESSES);
    if (p->n > 0 && o->n > 0 && o->n != p->n)
        return verb_refuse(RUN_COMMAND ": option -n: %lld, but mode %s is for %d rank%s",
                           (long long)o->n, mode_text(p, mode), p->n, plural(p->n));
    return LK_EXIT_DONE;
}

int placement_make(const run_options *o, bool threads, placement *out)
{
    *out = (placement){.n = (int)o->n};
    out->asked = o->host || o->hostfile || o->mode || o->rankfile || o->ddlarg || o->accelerators ||
                 o->nodes || o->racks || o->aisles;
    if (lk_arena_new(&out->arena) != LK_OK)
        return verb_failed();
    if (!out->asked)
        return LK_EXIT_DONE;
    if (threads && (o->host || o->hostfile || o->rankfile))
        return verb_refuse(RUN_COMMAND ": option --%s: ranks that are threads are on this host",
                           o->host       ? "host"
                           : o->hostfile ? "hostfile"
                                         : "rankfile");
    if (lk_tier_spec_parse(o->mode ? o->mode : "p", &out->file.mode) != LK_OK)
        return verb_refuse(RUN_COMMAND ": option --mode: %s", lk_error_message());
    if (o->rankfile)
        return rankfile_take(o, out);
    int status = threads ? LK_EXIT_DONE : hosts_take(o, out);
    if (status != LK_EXIT_DONE)
        return status;
    if (out->file.hosts.n == 0)
        status = mode_alone(o, threads, out);
    else if (out->file.mode.n_tiers > 0)
        status = dimensions_check(o, out);
    else
        status = dimensions_make(o, out);
    if (status == LK_EXIT_DONE && out->file.mode.n_tiers > 0 && out->file.mode.size[0] > 0)
        status = ranks_count(o, out);
    if (status == LK_EXIT_DONE && out->file.hosts.n > 0 &&
        !rankfile_check_hosts(&out->file, RUN_COMMAND))
        status = LK_EXIT_USAGE;
    return status;
}

bool placement_has_hosts(const placement *p)
{
    return p->file.hosts.n > 0;
}

int placement_fit(placement *p, const run_options *o, const host_facts *each)
{
    char mode[LK_TIER_SPEC_TEXT];
    rankfile *f = &p->file;
    f->sockets = each->sockets;
    f->cores = each->cores / each->sockets;
    if (f->mode.size[0] == 0) {
        f->mode.size[0] = f->sets = f->sockets * f->cores;
        int status = ranks_count(o, p);
        if (status != LK_EXIT_DONE)
            return status;
    }
    if (!rankfile_check_cores(f, RUN_COMMAND))
        return LK_EXIT_USAGE;
    if (o->verbose)
        fprintf(stderr,
                RUN_COMMAND
                ": mode %s: %d rank%s, %d on each of %d host%s, whose %d core%s are cut "
                "into %d set%s\n",
                mode_text(p, mode), p->n, plural(p->n), f->mode.size[0], f->hosts.n,
                plural(f->hosts.n), each->cores, plural(each->cores), f->sets, plural(f->sets));
    return LK_EXIT_DONE;
}

void placement_free(placement *p)
{
    lk_arena_free(p->arena);
    *p = (placement){.arena = NULL};
}
