/* A program as text, and made smaller. */
#include "programs.h"

#include <stdio.h>

static const char *const names[] = {
#define X(code, name) name,
    INSTRUCTION_MAP(X)
#undef X
};

static const char *const ways[N_WAYS] = {"recv", "irecv", "waitany", "allreduce"};

static void print_message(const struct program *p, int id)
{
    const struct message *m = &p->message[id];
    printf("  m%d: v%d of rank %d to rank %d", id, m->value, m->source, m->dest);
    if (m->got >= 0)
        printf(" as v%d", m->got);
    printf(", communicator %d, tag %lld%s%s%s", m->comm, (long long)m->tag,
           m->any_rank ? ", from any rank" : "", m->any_tag ? ", any tag" : "",
           m->large ? ", large" : "");
}

/* "v1 = " of rank r. */
static void print_out(const struct instruction *n, int r)
{
    if (n->out[r] >= 0)
        printf("v%d = ", n->out[r]);
}

static void print_instruction(const struct program *p, const struct instruction *n)
{
    if (n->rank < 0) {
        printf("all     %s on communicator %d", names[n->kind], n->comm);
        if (n->kind == ALLREDUCE || n->kind == REDUCE)
            printf(", %s", lk_reduce_op_name(n->fold));
        if (n->kind == SENDRECV)
            printf(", by %d%s", n->root, n->periodic ? ", periodic" : "");
        else if (n->kind == REDUCE || n->kind == BCAST || n->kind == SCATTER || n->kind == GATHER)
            printf(", root %d", n->root);
        if (n->kind == SEGMENTS)
            printf(", %s, %d deep, to %d", ways[n->way], n->depth, n->root);
        for (int r = 0; r < p->size; r++)
            if (n->in[r] >= 0) {
                printf("\n          rank %d: ", r);
                print_out(n, r);
                printf("v%d", n->in[r]);
            }
        putchar('\n');
        return;
    }
    printf("rank %d  ", n->rank);
    print_out(n, 0);
    printf("%s", names[n->kind]);
    if (n->kind < ALLREDUCE)
        printf(" v%d", n->in[0]);
    if (n->kind < ALLREDUCE && n->in[1] >= 0)
        printf(", v%d", n->in[1]);
    if (n->kind == AFFINE)
        printf(" * %g + %g", n->scale, n->shift);
    if (n->kind == SLICE)
        printf(" from %d to %d", n->start, n->stop);
    if (n->kind >= SEND && n->kind <= WAIT_RECV)
        print_message(p, n->message);
    for (int i = 0; i < n->n_waits; i++) {
        int id = n->kind == WAITANY ? n->wait[i] / 2 : n->wait[i];
        if (!p->dropped[p->message[id].group]) {
            printf("\n         %s", n->kind == RECV_ALL ? "" : n->wait[i] % 2 ? " recv" : " send");
            print_message(p, id);
        }
    }
    putchar('\n');
}

void program_print(const struct program *p)
{
    printf("program of seed %llu on %d ranks%s\n", (unsigned long long)p->seed, p->size,
           p->second ? ", differentiated twice" : "");
    for (int c = 1; c < p->n_comms; c++) {
        printf("communicator %d: color.key", c);
        for (int r = 0; r < p->size; r++)
            printf(" %d.%d", p->color[c][r], p->key[c][r]);
        putchar('\n');
    }
    for (int v = 0; v < p->n_values; v++)
        if (p->value[v].source != COMPUTED)
            printf("rank %d  v%d = %s of %d%s\n", p->value[v].rank, v,
                   p->value[v].source == LEAF ? "leaf" : "constant", p->value[v].length,
                   p->value[v].integer ? " integers" : "");
    for (int i = 0; i < p->n_instructions; i++)
        if (p->instruction[i].group < 0 || !p->dropped[p->instruction[i].group])
            print_instruction(p, &p->instruction[i]);
    for (int i = 0; i < p->n_losses; i++)
        printf("rank %d  loss %g * v%d\n", p->value[p->loss[i].value].rank, p->loss[i].weight,
               p->loss[i].value);
}

/* What a dropped group would have computed is constant instead. */
static void drop(struct program *p, int group)
{
    p->dropped[group] = true;
    for (int i = 0; i < p->n_instructions; i++) {
        const struct instruction *n = &p->instruction[i];
        for (int r = 0; n->group == group && r < MAX_RANKS; r++)
            if (n->out[r] >= 0)
                p->value[n->out[r]].source = CONSTANT;
    }
    for (int id = 0; id < p->n_messages; id++)
        if (p->message[id].group == group && p->message[id].got >= 0)
            p->value[p->message[id].got].source = CONSTANT;
}

void program_shrink(struct program *p, const struct program_calls *calls, double deadline)
{
    static struct program less;
    char why[256];
    for (int group = p->n_groups - 1; group >= 0; group--) {
        bool used = false;
        for (int i = 0; i < p->n_instructions; i++)
            used |= p->instruction[i].group == group;
        if (!used)
            continue;
        less = *p;
        drop(&less, group);
        if (!program_is_right(&less, calls, deadline, why, sizeof why))
            *p = less;
    }
    for (int i = p->n_losses - 1; i >= 0; i--) {
        less = *p;
        less.loss[i] = less.loss[--less.n_losses];
        if (!program_is_right(&less, calls, deadline, why, sizeof why))
            *p = less;
    }
}
