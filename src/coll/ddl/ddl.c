/* lk_ddl: made on each rank by lk_ddl_init(), with its broadcast, and freed by the program.
 * Collective, on the rank's thread. */
#include "coll/ddl/ddl.h"

#include "base/env.h"
#include "base/fpenv.h"
#include "base/log.h"
#include "base/text/number.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/extra/clock.h>
#include <lockstep/extra/text.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lk_status lk__ddl_room(void *rooms, int64_t bytes, void *out)
{
    lk__ddl_rooms *r = rooms;
    LK_CHECK(r->n_used < LK_DDL_ROOMS, LK_ENOMEM, "more than %d blocks in one call", LK_DDL_ROOMS);
    int i = r->n_used;
    if (r->bytes[i] < bytes || !r->block[i]) {
        lk_free(r->block[i]);
        r->bytes[i] = 0;
        LK_TRY(lk_alloc(&r->block[i], bytes, 1));
        r->bytes[i] = bytes;
    }
    r->n_used++;
    memcpy(out, &r->block[i], sizeof r->block[i]);
    return LK_OK;
}

void lk__ddl_rooms_free(lk__ddl_rooms *r)
{
    for (int i = 0; i < LK_DDL_ROOMS; i++)
        lk_free(r->block[i]);
}

void lk__ddl_log(const lk_ddl *d, lk_log_level level, const char *fmt, ...)
{
    enum { MOST = 1000 };
    char raw[MOST], text[MOST];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    if (lk__log_has_sink()) {
        lk_log_write(level, "%s", raw);
    } else if (d->place.rank == 0) {
        lk_sanitize_text(raw, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
}

lk_status lk__ddl_mpi(lk_ddl *d, lk__native **out)
{
    if (!d->mpi)
        LK_TRY(lk__native_open(d->comm, &d->mpi));
    *out = d->mpi;
    return LK_OK;
}

/* Whether all ranks of this host may use the same cores: then no launcher has bound them. */
static bool cores_shared(const lk_topology *t)
{
    const lk_location *mine = &t->location[t->rank];
    for (int r = 0; r < t->size; r++)
        if (t->location[r].node == mine->node && strcmp(t->location[r].cores, mine->cores) != 0)
            return false;
    return true;
}

/* Cut the cores of the host into devices; a rank that its launcher has bound keeps what it has. */
static void device_find(lk_ddl *d)
{
    cpu_set_t all;
    lk_ddl_location *p = &d->place;
    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    int n = CPU_COUNT(&all), from = 0, to = n, k = 0, used = 0;
    if (cores_shared(d->topology)) {
        from = (int)((int64_t)p->device * n / p->n_devices);
        to = (int)((int64_t)(p->device + 1) * n / p->n_devices);
        to = to > from ? to : from + 1;
    }
    CPU_ZERO(&d->cores);
    for (size_t c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &all) || k++ < from || k > to)
            continue;
        CPU_SET(c, &d->cores);
        int more = snprintf(p->cores + used, sizeof p->cores - (size_t)used, "%s%zu",
                            used ? "," : "", c);
        used = used + more < (int)sizeof p->cores ? used + more : (int)sizeof p->cores - 1;
    }
}

static lk_status place_find(lk_ddl *d, int devices)
{
    const lk_topology *t = d->topology;
    lk_comm *c = d->comm;
    for (int r = 0; r < t->size; r++) {
        int n = 0;
        for (int s = 0; s < t->size; s++)
            n += t->location[s].node == t->location[r].node;
        LK_CHECK(devices == 0 || n <= devices, LK_EINVAL,
                 "%d ranks are on host %s, which has %d devices: a rank needs one of its own", n,
                 t->location[r].host, devices);
    }
    int local = lk_comm_node_rank(c), n_local = lk_comm_node_size(c);
    d->place = (lk_ddl_location){.rank = lk_comm_rank(c),
                                 .size = lk_comm_size(c),
                                 .local_rank = local,
                                 .local_size = n_local,
                                 .device = local,
                                 .n_devices = devices ? devices : n_local};
    device_find(d);
    return LK_OK;
}

/* Mode m: MPI's communicators along the lines of each tier. */
static lk_status lines_open(lk_ddl *d)
{
    int stride = 1, rank = d->place.rank;
    for (int t = 0; t < d->tiers.n; t++) {
        int size = d->tiers.size[t];
        lk_comm *line = NULL;
        int color = rank % stride + rank / (stride * size) * stride;
        LK_TRY(lk_comm_split(d->comm, color, rank, &line));
        lk_status st = lk__native_open(line, &d->line[t]);
        lk_comm_close(line);
        LK_TRY(st);
        stride *= size;
    }
    return LK_OK;
}

static lk_status group_size_get(int64_t *out)
{
    const char *env = lk__env("DDL_GROUP_SIZE");
    *out = 1048576;
    if (!env || !*env)
        return LK_OK;
    double v = 0;
    LK_CHECK(!lk__number_read_real(env, &v) && v >= 0 && v <= 1e15, LK_EINVAL,
             "DDL_GROUP_SIZE is \"%s\": it must be a number of elements", env);
    *out = v < 200000 ? 200000 : (int64_t)v;
    return LK_OK;
}

static void log_level_raise(const lk__ddl_options *o)
{
    lk_log_level level = o->dbg_level == 2                       ? LK_LOG_DEBUG
                         : o->dbg_level == 1 || o->dump_iter > 0 ? LK_LOG_INFO
                                                                 : LK_LOG_WARN;
    if (lk_log_level_now() < level)
        lk_log_set_level(level);
}

static lk_status ddl_begin(lk_ddl *d, lk_comm *comm, int devices)
{
    if (!comm) {
        LK_TRY(lk_comm_open(NULL, &d->opened));
        comm = d->opened;
    }
    LK_TRY(lk_tier_spec_fit(&d->options.mode, lk_comm_size(comm)));
    LK_TRY(lk_comm_dup(comm, &d->comm));
    LK_TRY(lk_topology_new_spec(d->comm, &d->options.mode, &d->topology));
    LK_TRY(place_find(d, devices));
    LK_TRY_COMM(d->comm->w, lk_alloc(&d->counts, d->place.size, sizeof *d->counts));
    const lk_topology *t = d->topology;
    d->tiers.n = t->n_tiers;
    for (int i = 0; i < t->n_tiers; i++)
        d->tiers.size[i] = t->tier[i].size;
    lk_tier_algorithm letter = d->options.mode.algorithm;
    if (letter == LK_TIER_MPI)
        LK_TRY(lines_open(d));
    if (letter == LK_TIER_BEST || letter == LK_TIER_PROBE || d->options.dump_iter > 0)
        LK_TRY(lk__ddl_measure(d));
    return LK_OK;
}

lk_status lk_ddl_init(lk_comm *comm, int devices, const char *options, lk_ddl **out)
{
    LK_FP_GUARD();
    LK_CHECK(out, LK_EINVAL, "out is NULL");
    lk_status st;
    *out = NULL;
    LK_CHECK(devices >= 0, LK_EINVAL, "%d devices on a host", devices);
    if (!options)
        options = lk__env("DDL_OPTIONS");
    lk_ddl *d = NULL;
    st = lk_alloc_zero(&d, 1, sizeof *d);
    if (st != LK_OK)
        return comm ? lk__fault_raise(comm->w) : st;
    d->slow_rank = -1;
    LK_TRY_TO(fail, lk__ddl_options_parse(options ? options : "", &d->options));
    LK_TRY_TO(fail, group_size_get(&d->group_size));
    log_level_raise(&d->options);
    LK_TRY_TO(fail, ddl_begin(d, comm, devices));
    d->left_ns = lk_clock_ns();
    if (d->options.dbg_level > 0) {
        char text[LK_TIER_SPEC_TEXT];
        lk_tier_spec mode = lk_ddl_mode(d);
        lk_tier_spec_text(&mode, text);
        lk__ddl_log(d, LK_LOG_INFO, "ddl: rank %d of %d, mode %s, device %d of %d: cores %s",
                    d->place.rank, d->place.size, text, d->place.device, d->place.n_devices,
                    d->place.cores);
    }
    *out = d;
    return LK_OK;
fail:
    lk_ddl_free(d);
    return st;
}

void lk_ddl_free(lk_ddl *d)
{
    if (!d)
        return;
    for (int t = 0; t < LK_MAX_TIERS; t++)
        lk__native_free(d->line[t]);
    lk__native_free(d->mpi);
    lk__ddl_rooms_free(&d->rooms);
    lk__ddl_rooms_free(&d->group);
    lk_free(d->counts);
    lk_topology_free(d->topology);
    lk_comm_close(d->comm);
    lk_comm_close(d->opened);
    lk_free(d);
}

lk_ddl_location lk_ddl_location_of(const lk_ddl *d)
{
    return d->place;
}

lk_tier_spec lk_ddl_mode(const lk_ddl *d)
{
    lk_tier_spec mode = {.algorithm = d->options.mode.algorithm, .n_tiers = d->tiers.n};
    memcpy(mode.size, d->tiers.size, sizeof mode.size);
    return mode;
}

lk_ddl_times lk_ddl_times_of(const lk_ddl *d)
{
    return d->times;
}

lk_status lk_ddl_bcast(lk_ddl *d, const lk_ddl_tensor *t)
{
    int64_t bytes;
    LK_CHECK(d && t, LK_EINVAL, "%s is NULL", d ? "t" : "ddl");
    LK_CHECK(t->count >= 0 && (t->out || t->count == 0), LK_EINVAL,
             "tensor \"%s\": %lld elements at %p", t->name ? t->name : "", (long long)t->count,
             t->out);
    LK_TRY(lk__extent("bcast", t->count, (int64_t)lk_dtype_size(t->dtype), &bytes));
    if (d->place.rank == 0 && t->in && bytes > 0)
        memmove(t->out, t->in, (size_t)bytes);
    return LK_TRACE(lk_bcast(d->comm, t->out, t->count, t->dtype, 0, t->name));
}
