/* Where the ranks are, and their tiers.
 *
 * Each rank tells the others its host, and the package and cache of the processors it may use; who
 * shares a node is known already.  Everything after the exchange is arithmetic on the same numbers,
 * so all ranks find the same tiers.
 */
#include "base/processors.h"
#include "comm/comm.h"
#include "comm/progress_thread.h"
#include "comm/topology/machine.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/topology.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number that all processors of the set share; -1 if they do not. */
static void common(int *number, int of_this, bool first)
{
    *number = first || *number == of_this ? of_this : -1;
}

static void machine_count(const lk__processor *processor, lk_topology *t)
{
    for (int c = 0; c < LK_MAX_PROCESSORS; c++) {
        if (processor[c].package >= t->n_packages)
            t->n_packages = processor[c].package + 1;
        if (processor[c].core >= t->n_cores)
            t->n_cores = processor[c].core + 1;
    }
}

static lk_status place_here(lk_location *p, lk_topology *t)
{
    lk__processors set;
    lk__processor *processor = NULL;
    LK_TRY(lk_alloc(&processor, LK_MAX_PROCESSORS, sizeof *processor));
    t->hardware_source = lk__machine_read(processor);
    machine_count(processor, t);
    *p = (lk_location){.package = -1, .cache = -1};
    if (gethostname(p->host, sizeof p->host - 1) != 0)
        snprintf(p->host, sizeof p->host, "?");
    if (lk__processors_allowed(&set)) {
        p->n_cores = lk__processors_count(&set);
        lk__processors_text(&set, p->cores, sizeof p->cores);
        bool first = true;
        for (int c = 0; c < LK_MAX_PROCESSORS; c++)
            if (lk__processors_have(&set, c)) {
                common(&p->package, processor[c].package, first);
                common(&p->cache, processor[c].cache, first);
                first = false;
            }
    }
    lk_free(processor);
    return LK_OK;
}

/* The number of ranks in each group, when groups are equal and their ranks follow each other; 0 if
 * not, and -1 where a rank's group is not known.  A group is a node, or a package of one. */
static int group_size(const lk_topology *t, bool packages)
{
    int size = 0, run = 0;
    for (int r = 0; r < t->size; r++) {
        const lk_location *p = &t->location[r], *before = r > 0 ? p - 1 : NULL;
        if (packages && p->package < 0)
            return -1;
        bool same = before && before->node == p->node &&
                    (!packages || before->package == p->package);
        if (!same && before) {
            if (size > 0 && run != size)
                return 0;
            size = run;
            run = 0;
            for (int s = 0; s < r; s++)
                if (t->location[s].node == p->node &&
                    (!packages || t->location[s].package == p->package))
                    return 0; /* met before, and left */
        }
        run++;
    }
    return size == 0 || run == size ? run : 0;
}

static void tier_add(lk_topology *t, const char *name, int size)
{
    t->tier[t->n_tiers++] = (lk_tier){name, size};
}

static void tiers_find(lk_topology *t)
{
    int on_node = group_size(t, false), on_package = group_size(t, true);
    if (on_node == 0) {
        t->flat_reason =
            "the hosts have different numbers of ranks, or their ranks do not follow each "
            "other";
        tier_add(t, "ranks", t->size);
        return;
    }
    if (on_package > 0 && on_package < on_node && on_node % on_package == 0) {
        tier_add(t, "package", on_package);
        tier_add(t, "host", on_node / on_package);
    } else
        tier_add(t, "host", on_node);
    if (t->size > on_node)
        tier_add(t, "hosts", t->size / on_node);
}

static void tiers_declare(lk_topology *t, const lk_tier_spec *mode)
{
    static const char *const names[LK_MAX_TIERS] = {"X", "Y", "Z", "W"};
    t->declared = true;
    for (int i = 0; i < mode->n_tiers; i++)
        tier_add(t, names[i], mode->size[i]);
}

lk_status lk_topology_new(lk_comm *comm, const char *mode, lk_topology **out)
{
    lk_tier_spec spec;
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    *out = NULL;
    if (mode)
        LK_TRY(lk_tier_spec_parse(mode, &spec));
    return LK_TRACE(lk_topology_new_spec(comm, mode ? &spec : NULL, out));
}

lk_status lk_topology_new_spec(lk_comm *comm, const lk_tier_spec *mode, lk_topology **out)
{
    LK_CHECK(comm && out, LK_EINVAL, "%s is NULL", comm ? "out" : "comm");
    lk_status st;
    *out = NULL;
    if (mode)
        LK_TRY(lk_tier_spec_fit(mode, comm->size));
    LK_INSIDE(comm->w);
    LK_TRY(lk__fault_check(comm->w));
    lk_topology *t = NULL;
    lk_location mine;
    LK_TRY_COMM(comm->w, lk_alloc_zero(&t, 1, sizeof *t));
    *t = (lk_topology){.rank = comm->rank,
                       .size = comm->size,
                       .n_nodes = comm->inter_size,
                       .algorithm = mode ? mode->algorithm : LK_TIER_BEST};
    st = lk_alloc(&t->location, comm->size, sizeof *t->location);
    if (st == LK_OK)
        st = place_here(&mine, t);
    if (st != LK_OK) {
        st = lk__fault_raise(comm->w);
        goto fail;
    }
    mine.node = comm->inter_rank;
    lk__call call = {.call = LK_CALL_SHARE,
                     .name = "topology",
                     .dtype = LK_U8,
                     .op = LK_N_REDUCE_OPS,
                     .root = -1};
    LK_TRY_TO(fail, lk__exchange(comm, &call, &mine, sizeof mine, t->location));
    if (mode && mode->n_tiers > 0)
        tiers_declare(t, mode);
    else
        tiers_find(t);
    *out = t;
    return LK_OK;
fail:
    lk_topology_free(t);
    return st;
}

void lk_topology_free(lk_topology *t)
{
    if (!t)
        return;
    lk_free(t->location);
    lk_free(t);
}
