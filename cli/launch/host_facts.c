/* Facts of a host (cores, library, MPI): read on this host, printed as one line and parsed from it:
 * see host_facts.h. */
#include "launch/host_facts.h"

#include "launch/launch.h"
#include "ranks.h"

#include <lockstep/device.h>
#include <lockstep/extra/isa.h>
#include <lockstep/topology.h>
#include <lockstep/version.h>

#include <string.h>
#include <unistd.h>

/* Sockets and cores, as hwloc or else the system counts them. */
static bool cores_read(host_facts *f)
{
    lk_comm *comm;
    lk_topology *t = NULL;
    if (lk_comm_open("self", &comm) != LK_OK)
        return false;
    bool found = lk_topology_new(comm, NULL, &t) == LK_OK;
    if (found) {
        f->sockets = t->n_packages > 0 ? t->n_packages : 1;
        f->cores = t->n_cores > 0 ? t->n_cores : (int)sysconf(_SC_NPROCESSORS_ONLN);
    }
    lk_topology_free(t);
    lk_comm_close(comm);
    return found;
}

/* "core:0,core:1,..." */
static lk_status cores_text(int cores, lk_arena *arena, char **out)
{
    enum { OF_A_CORE = 16 };
    size_t n = 0, room = (size_t)cores * OF_A_CORE;
    LK_TRY(lk_arena_alloc(arena, out, (int64_t)room, 1));
    for (int core = 0; core < cores; core++)
        n += (size_t)snprintf(*out + n, room - n, "%score:%d", core > 0 ? "," : "", core);
    return LK_OK;
}

/* The processors of all devices, "0+4,1+5". */
static lk_status processors_text(const lk_device *list, int n_devices, lk_arena *arena, char **out)
{
    enum { OF_A_PROCESSOR = 6 };
    size_t n = 0, room = 1;
    for (int i = 0; i < n_devices; i++)
        room += (size_t)lk_device_n_processors(&list[i]) * OF_A_PROCESSOR;
    LK_TRY(lk_arena_alloc(arena, out, (int64_t)room, 1));
    for (int i = 0; i < n_devices; i++) {
        const char *between = i > 0 ? "," : "";
        for (int p = 0; p < LK_MAX_PROCESSORS; p++)
            if (list[i].processors[p / 64] >> (p % 64) & 1) {
                n += (size_t)snprintf(*out + n, room - n, "%s%d", between, p);
                between = "+";
            }
    }
    return LK_OK;
}

static lk_status processors_read(host_facts *f, lk_arena *arena)
{
    char *text;
    lk_device *list;
    int n = 0;
    f->processors = "none";
    LK_TRY(cores_text(f->cores, arena, &text));
    LK_TRY(lk_arena_alloc(arena, &list, f->cores, sizeof *list));
    if (lk_devices_parse(text, list, f->cores, &n) != LK_OK || n != f->cores) {
        lk_error_clear(); /* some are not for this process */
        return LK_OK;
    }
    LK_TRY(processors_text(list, n, arena, &text));
    f->processors = text;
    return LK_OK;
}

bool host_facts_collect(const char *program, lk_arena *arena, host_facts *out)
{
    static const char *const mpis[] = {"openmpi", "mpich"};
    char path[PATH_MAX];
    *out = (host_facts){.rank = ranks_given(), .program = !program || program_find(program, path)};
    snprintf(out->version, sizeof out->version, "%s", lk_version());
    out->epoch = lk_numerics_epoch();
    out->hash = lk_hash_format();
    if (!cores_read(out))
        return false;
    for (int i = 0; i < LK_N_ISAS; i++)
        if (lk_isa_is_available((lk_isa)i) && !lk_isa_is_emulated((lk_isa)i))
            snprintf(out->isa, sizeof out->isa, "%s", lk_isa_name((lk_isa)i));
    for (size_t i = 0; i < sizeof mpis / sizeof mpis[0]; i++)
        if (lk_mpi_has_module(mpis[i])) {
            size_t n = strlen(out->modules);
            snprintf(out->modules + n, sizeof out->modules - n, "%s%s", n > 0 ? "+" : "", mpis[i]);
        }
    if (!out->modules[0])
        snprintf(out->modules, sizeof out->modules, "none");
    return processors_read(out, arena) == LK_OK;
}

void host_facts_print(const host_facts *f, FILE *to)
{
    fprintf(to,
            "lockstep host %d version %s epoch %d hash %d sockets %d cores %d isa %s modules %s "
            "program %d processors %s\n",
            f->rank, f->version, f->epoch, f->hash, f->sockets, f->cores, f->isa, f->modules,
            f->program, f->processors);
}

bool host_facts_read(const char *line, lk_arena *arena, host_facts *out)
{
    int program = 0, behind = 0;
    *out = (host_facts){.rank = -1};
    bool is = sscanf(line,
                     "lockstep host %d version %31s epoch %d hash %d sockets %d cores %d isa %15s "
                     "modules %63s program %d processors %n",
                     &out->rank, out->version, &out->epoch, &out->hash, &out->sockets, &out->cores,
                     out->isa, out->modules, &program, &behind) == 9;
    out->program = program != 0;
    return is && behind > 0 && out->sockets >= 1 && out->cores >= out->sockets &&
           lk_arena_text(arena, line + behind, strcspn(line + behind, " \r\n"), &out->processors) ==
               LK_OK;
}
