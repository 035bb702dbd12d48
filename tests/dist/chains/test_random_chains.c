/* Random chain lists: what the check accepts runs to its end, forward and backward, with the bits of one
 * process; what it refuses it refuses on all ranks.
 *
 * TEST_PASSES in the environment says how many there are on each number of ranks, in thirds. */
#include "chains.h"

/* A blend, and the first value anew: that is used twice. */
static lk_status pair(const lk_pass *pass, void *arg, const lk_list *in, int n_in, lk_list *out)
{
    LK_TRY(blend(pass, arg, in, n_in, out));
    return LK_TRACE(lk_affine(in[0].at[0], 0.75, 0.125, &out->at[out->n++]));
}

static uint64_t drawn(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (*state >> 33) % below;
}

/* Values that are on their way, from rank to rank. */
typedef int traffic[MOST_RANKS][MOST_RANKS];

/* Which of the values for `rank` a component takes: some, or with `all` all. */
static int take(traffic under_way, int ranks, int rank, bool all, uint64_t *state, int *in)
{
    int n = 0;
    for (int from = 0; from < ranks; from++)
        while (under_way[from][rank] > 0 && n < MOST_LINKS - 2 && (all || drawn(state, 3) > 0)) {
            under_way[from][rank]--;
            in[n++] = from;
        }
    in[n] = END;
    return n;
}

/* Components one after the other, mostly where the last one gave something, with what is there for it; at
 * the end each rank takes what is left.  Ranks run theirs at the same time, so that sends may meet in a
 * circle. */
static void random_network(struct network *net, uint64_t seed)
{
    traffic under_way = {{0}};
    uint64_t state = seed, ranks = (uint64_t)net->ranks;
    int in[MOST_LINKS], out[MOST_LINKS], r = (int)drawn(&state, ranks);
    for (int i = 0; i < 2 * net->ranks && net->n[r] < MOST_PARTS - 1; i++) {
        int n_out = 1 + (drawn(&state, 3) == 0), next = 0;
        int n_in = take(under_way, net->ranks, r, drawn(&state, 4) > 0, &state, in);
        for (int k = 0; k < n_out; k++) {
            out[k] = (int)drawn(&state, ranks);
            next = drawn(&state, 8) ? out[k] : (int)drawn(&state, ranks);
            under_way[r][out[k]]++;
        }
        out[n_out] = END;
        bool layer = n_in == 0 && drawn(&state, 2);
        part_add(net, r, "part", layer ? NULL : drawn(&state, 2) ? blend : pair, in, out);
        r = next;
    }
    for (r = 0; r < net->ranks; r++)
        if (take(under_way, net->ranks, r, true, &state, in) > 0)
            part_add(net, r, "last", blend, in, NONE);
}

/* Whether all ranks come to the same result. */
static bool accepted_by_all(lk_comm *comm, lk_chain *chain)
{
    lk_status st = lk_chain_build(chain, NULL, 0);
    int64_t refused = st != LK_OK, all = 0;
    if (refused && !strstr(lk_error_message(), "in a circle"))
        TEST_FAIL("%s", lk_error_message());
    lk_error_clear();
    ASSERT_OK(lk_allreduce(comm, &refused, &all, 1, LK_I64, LK_REDUCE_SUM, "refused"));
    ASSERT_TRUE(all == 0 || all == lk_comm_size(comm));
    return !refused;
}

RANKS_TEST(random_chains_that_are_accepted_have_the_bits_of_one_process)
{
    const char *text = getenv("TEST_PASSES");
    int n = 3 * (text ? atoi(text) : 5), ran = 0;
    for (int i = 0; i < n; i++) {
        struct network net = {.ranks = lk_comm_size(comm), .whole = true};
        struct parts own = {.tape = NULL};
        char name[32];
        snprintf(name, sizeof name, "random chain %d", i);
        random_network(&net, (uint64_t)i * 1000 + (uint64_t)net.ranks);
        lk_chain *chain = chain_of(comm, &net, &own);
        if (accepted_by_all(comm, chain)) {
            chain_compare(comm, chain, &net, name, 1, &own);
            ran++;
        } else {
            lk_chain_free(chain);
            parts_free(&own);
        }
    }
    ASSERT_TRUE(ran > 0);
}
