/* placement_pass(): a placement as the words of a launcher: hosts, cores, and variables for the ranks.
 * run_job.c calls it before the job starts. */
#include "launch/line.h"
#include "launch/placement.h"
#include "verb.h"

#include <lockstep/ddl.h>
#include <lockstep/log.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

/* A text that grows, and ends in the arena of a placement. */
struct text {
    FILE *to;
    char *made;
    size_t size;
};

static bool text_begin(struct text *t)
{
    *t = (struct text){.made = NULL};
    t->to = open_memstream(&t->made, &t->size);
    return t->to != NULL;
}

static const char *text_end(struct text *t, placement *p)
{
    const char *out = NULL;
    bool whole = fclose(t->to) == 0;
    if (whole && lk_arena_text(p->arena, t->made, t->size, &out) != LK_OK)
        out = NULL;
    free(t->made);
    return out;
}

static int no_memory(void)
{
    fprintf(stderr, "error: " RUN_COMMAND ": no memory\n");
    return LK_EXIT_FAILED;
}

/* ---- ranks and hosts ---- */

static const host_list *hosts_of(const placement *p)
{
    return p->given.n > 0 ? &p->given.hosts : &p->file.hosts;
}

static int host_of(const placement *p, int rank)
{
    return p->given.n > 0 ? p->given.rank[rank].host : rank / p->file.mode.size[0];
}

/* "a:4,b:4".  Open MPI has each host once, and the ranks from its file; MPICH puts ranks there in turn, so
 * a host may come again. */
static const char *hosts_text(placement *p, bool in_turn)
{
    struct text t;
    const host_list *hosts = hosts_of(p);
    if (!text_begin(&t))
        return NULL;
    for (int h = 0; h < hosts->n && !in_turn; h++)
        fprintf(t.to, "%s%s:%d", h > 0 ? "," : "", hosts->item[h].name,
                p->given.n > 0 ? hosts->item[h].slots : p->file.mode.size[0]);
    for (int r = 0, n; r < p->n && in_turn; r += n) {
        for (n = 1; r + n < p->n && host_of(p, r + n) == host_of(p, r);)
            n++;
        fprintf(t.to, "%s%s:%d", r > 0 ? "," : "", hosts->item[host_of(p, r)].name, n);
    }
    return text_end(&t, p);
}

/* Part number `i` of what commas separate; its length in `n`. */
static const char *part_of(const char *text, int i, int *n)
{
    for (; i > 0 && *text; i--) {
        text += strcspn(text, ",");
        text += *text == ',';
    }
    *n = (int)strcspn(text, ",");
    return text;
}

/* "user:0+1,2+3": the processors of each rank of a host. */
static const char *binding_text(placement *p, const host_facts *each)
{
    struct text t;
    const rankfile *f = &p->file;
    if (!text_begin(&t))
        return NULL;
    fputs("user:", t.to);
    for (int x = 0; x < f->mode.size[0]; x++) {
        int socket, first, last, n;
        rankfile_slot(f, x, &socket, &first, &last);
        for (int c = first; c <= last; c++) {
            const char *part = part_of(each->processors, socket * f->cores + c, &n);
            fprintf(t.to, "%s%.*s", c > first ? "+" : x > 0 ? "," : "", n, part);
        }
    }
    return text_end(&t, p);
}

static int place_pass(placement *p, const run_options *o, const char *mpi, const host_facts *each)
{
    launch_place *out = &p->place;
    const host_list *hosts = hosts_of(p);
    bool openmpi = strcmp(mpi, "openmpi") == 0;
    if (hosts->n == 0 || strcmp(mpi, "local") == 0)
        return LK_EXIT_DONE;
    out->here = hosts->n == 1 && hosts_is_here(hosts->item[0].name);
    if (!out->here || !launch_is_here(NULL))
        out->hosts = hosts_text(p, !openmpi);
    if (!out->hosts && !(out->here && launch_is_here(NULL)))
        return no_memory();
    out->given = o->rankfile;
    if (o->rankfile && !openmpi)
        fprintf(stderr,
                "warning: %s: MPICH has no rank files: it gets the hosts of the ranks, and "
                "not their cores\n",
                o->rankfile);
    if (o->rankfile)
        return LK_EXIT_DONE;
    out->ranks = openmpi ? &p->file : NULL;
    out->crowded = p->file.sets > p->file.sockets * p->file.cores;
    if (openmpi || strcmp(each->processors, "none") == 0)
        return LK_EXIT_DONE;
    out->binding = binding_text(p, each);
    return out->binding ? LK_EXIT_DONE : no_memory();
}

/* ---- variables ---- */

/* Whether a name is among lines of NAME or NAME=VALUE. */
static bool is_among(const char *lines, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = lines; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strncmp(at, name, n) == 0 && (!at[n] || strchr("=\n", at[n])))
            return true;
    return false;
}

/* Lines that -x gave. */
static int variables_check(const char *lines)
{
    for (const char *at = lines; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
        char name[256];
        int n = (int)strcspn(at, "=\n");
        bool valid = n > 0 && n < (int)sizeof name && !isdigit((unsigned char)*at);
        for (int i = 0; i < n && valid; i++)
            valid = isalnum((unsigned char)at[i]) || at[i] == '_';
        if (!valid)
            return verb_refuse(RUN_COMMAND ": option -x: \"%.*s\" is no name of a variable",
                               (int)strcspn(at, "\n"), at);
        snprintf(name, sizeof name, "%.*s", n, at);
        if (at[n] != '=' && !secure_getenv(name))
            return verb_refuse(RUN_COMMAND ": option -x: %s is not set here: give %s=VALUE", name,
                               name);
    }
    return LK_EXIT_DONE;
}

/* Options for DDL besides the mode, as the library reads them on one rank. */
static int ddlarg_check(const char *given)
{
    char text[4096];
    lk_comm *comm;
    lk_ddl *ddl = NULL;
    int n = snprintf(text, sizeof text, "-mode n %s", given);
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    if (n >= (int)sizeof text)
        return verb_refuse(RUN_COMMAND ": option --ddlarg: more than %d characters",
                           (int)sizeof text - 8);
    if (lk_comm_open("self", &comm) != LK_OK)
        return verb_failed();
    lk_log_level level = lk_log_level_now();
    lk_status st = lk_ddl_init(comm, 0, text, &ddl);
    lk_ddl_free(ddl);
    lk_comm_close(comm);
    lk_log_set_level(level);
    if (st == LK_EINVAL && strstr(given, "-mode"))
        return verb_refuse(RUN_COMMAND ": option --ddlarg: %s; the mode is what --mode says",
                           lk_error_message());
    return st == LK_OK       ? LK_EXIT_DONE
           : st == LK_EINVAL ? verb_refuse(RUN_COMMAND ": option --ddlarg: %s", lk_error_message())
                             : verb_failed();
}

/* "-mode p:2x2x1x1 -dump_iter 100" */
static void options_write(const placement *p, const run_options *o, FILE *to)
{
    char mode[LK_TIER_SPEC_TEXT];
    lk_tier_spec_text(&p->file.mode, mode);
    fprintf(to, "DDL_OPTIONS=-mode %s", mode);
    if (o->ddlarg)
        fputc(' ', to);
    for (const char *c = o->ddlarg; c && *c; c++)
        fputc(*c == '\n' ? ' ' : *c, to);
    fputc('\n', to);
}

/* The ranks of each host: "a:0,1;b:2,3".  A variable has at most 128 KiB. */
static void list_write(const placement *p, FILE *to)
{
    enum { MOST = 120000, OF_A_RANK = 8 };
    const host_list *hosts = hosts_of(p);
    size_t size = (size_t)p->n * OF_A_RANK;
    for (int h = 0; h < hosts->n; h++)
        size += strlen(hosts->item[h].name) + 1;
    if (size > MOST) {
        fprintf(stderr,
                "warning: " RUN_COMMAND ": DDL_HOST_LIST is not set: %d ranks are too many\n",
                p->n);
        return;
    }
    fputs("DDL_HOST_LIST=", to);
    for (int h = 0; h < hosts->n; h++) {
        char between = ':';
        fprintf(to, "%s%s", h > 0 ? ";" : "", hosts->item[h].name);
        for (int r = 0; r < p->n; r++)
            if (host_of(p, r) == h) {
                fprintf(to, "%c%d", between, r);
                between = ',';
            }
    }
    fputc('\n', to);
}

/* The tiers for allreduces that know no options of DDL: those of one host are found. */
static void tiers_write(const placement *p, FILE *to)
{
    const lk_tier_spec *m = &p->file.mode;
    int n = m->n_tiers;
    while (n > 1 && m->size[n - 1] == 1)
        n--;
    fputs("LK_TIERS=", to);
    for (int t = 0; t < n; t++)
        fprintf(to, "%s%d", t > 0 ? "x" : "", m->size[t]);
    fputc('\n', to);
}

static void ddl_write(const placement *p, const run_options *o, FILE *to)
{
    const char *port = secure_getenv("DDL_HOST_PORT"), *tiers = secure_getenv("LK_TIERS");
    if (!o->no_ddloptions && !is_among(o->variables, "DDL_OPTIONS"))
        options_write(p, o, to);
    if (!(port && *port) && !is_among(o->variables, "DDL_HOST_PORT"))
        fputs("DDL_HOST_PORT=2200\n", to);
    if (hosts_of(p)->n > 0 && !is_among(o->variables, "DDL_HOST_LIST"))
        list_write(p, to);
    if (!o->no_ddloptions && p->declared && hosts_of(p)->n != 1 && !(tiers && *tiers) &&
        !is_among(o->variables, "LK_TIERS"))
        tiers_write(p, to);
}

int placement_pass(placement *p, const run_options *o, const char *mpi, const host_facts *each)
{
    struct text t;
    int status = variables_check(o->variables);
    if (status == LK_EXIT_DONE && o->ddlarg)
        status = ddlarg_check(o->ddlarg);
    if (status == LK_EXIT_DONE)
        status = place_pass(p, o, mpi, each);
    if (status != LK_EXIT_DONE)
        return status;
    p->place.tcp = o->tcp;
    p->place.words = o->mpiarg;
    if (!text_begin(&t))
        return no_memory();
    if (p->asked)
        ddl_write(p, o, t.to);
    if (o->variables)
        fprintf(t.to, "%s\n", o->variables);
    p->place.variables = text_end(&t, p);
    return p->place.variables ? LK_EXIT_DONE : no_memory();
}
