/* What is wrong with a chain list is found in the table of all ranks' declarations, and said in words
 * that name both ends. */
#include "harness.h"
#include "parallel/chain/chain.h"

#include <lockstep/extra/alloc.h>

enum { MOST_ROWS = 64, MOST_RANKS = 8, SELF_END = -100 };

struct declared {
    lk__chain_row row[MOST_ROWS];
    int64_t first[MOST_RANKS + 1], n, components;
    int ranks;
};

static void rank_begin(struct declared *d)
{
    d->components = 0;
    d->first[++d->ranks] = d->n;
}

static void row_add(struct declared *d, const char *name, int64_t flags, lk__row_kind kind,
                    int64_t peer)
{
    lk__chain_row *row = &d->row[d->n++];
    ASSERT_TRUE(d->n <= MOST_ROWS && d->ranks <= MOST_RANKS);
    *row = (lk__chain_row){.kind = kind, .component = d->components, .peer = peer, .flags = flags};
    snprintf(row->name, sizeof row->name, "%s", name);
    d->first[d->ranks] = d->n;
}

/* Lists of ranks end with SELF_END. */
static void declare(struct declared *d, const char *name, int64_t flags, const int *in,
                    const int *out)
{
    flags |= out[0] == SELF_END ? 0 : LK__HAS_OUT;
    row_add(d, name, flags, LK__ROW_COMPONENT, 0);
    for (; *in != SELF_END; in++)
        row_add(d, name, flags, LK__ROW_IN, *in);
    for (; *out != SELF_END; out++)
        row_add(d, name, flags, LK__ROW_OUT, *out);
    d->components++;
}

#define RANKS(...) ((const int[]){__VA_ARGS__, SELF_END})
#define NONE ((const int[]){SELF_END})

static lk_status check(const struct declared *d)
{
    return lk__chain_check(&(lk__chain_table){.ranks = d->ranks, .first = d->first, .row = d->row});
}

#define ASSERT_REFUSED(d, text)                                        \
    do {                                                               \
        ASSERT_EQ(check(d), LK_EINVAL);                                \
        if (strcmp(lk_error_message(), text) != 0)                     \
            TEST_FAIL("\"%s\", not \"%s\"", lk_error_message(), text); \
        lk_error_clear();                                              \
    } while (0)

TEST(two_outputs_on_a_rank_are_refused)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, NONE);
    declare(&d, "l2", 0, NONE, NONE);
    ASSERT_REFUSED(&d, "component 0 (l1) of rank 0 and component 1 (l2) of rank 0 both have no "
                       "out_ranks: a rank has at most one output");
}

TEST(two_ranks_may_have_an_output_each)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, NONE);
    rank_begin(&d);
    declare(&d, "l2", 0, NONE, NONE);
    ASSERT_OK(check(&d));
}

TEST(a_value_that_stays_in_the_own_queue_is_refused)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, RANKS(0, 1));
    declare(&d, "l2", 0, RANKS(1), NONE);
    rank_begin(&d);
    declare(&d, "l3", 0, RANKS(0), RANKS(0));
    ASSERT_REFUSED(&d,
                   "component 0 (l1) of rank 0 puts a value into the queue of its own rank that "
                   "no later component takes");
}

/* Of three values the first two are taken: the last is named. */
TEST(the_value_that_stays_is_named)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, RANKS(0, 0));
    declare(&d, "l2", 0, RANKS(0, 0), RANKS(0));
    ASSERT_REFUSED(&d,
                   "component 1 (l2) of rank 0 puts a value into the queue of its own rank that "
                   "no later component takes");
}

TEST(an_empty_own_queue_is_refused)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, RANKS(0), RANKS(1));
    rank_begin(&d);
    declare(&d, "l2", 0, RANKS(0), NONE);
    ASSERT_REFUSED(&d, "component 0 (l1) of rank 0 takes an input from its own rank, but no "
                       "component before it has put one there");
}

TEST(a_component_cannot_take_what_it_gives)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "", 0, RANKS(0), RANKS(0));
    ASSERT_REFUSED(&d, "component 0 of rank 0 takes an input from its own rank, but no component "
                       "before it has put one there");
}

TEST(a_value_that_nobody_takes_is_refused)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, RANKS(1));
    declare(&d, "l2", 0, NONE, RANKS(1));
    rank_begin(&d);
    declare(&d, "l3", 0, RANKS(0), NONE);
    ASSERT_REFUSED(&d,
                   "component 1 (l2) of rank 0 sends to rank 1, where no component takes message "
                   "1 from rank 0");
}

TEST(a_value_that_nobody_sends_is_refused)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, RANKS(1));
    rank_begin(&d);
    declare(&d, "l3", 0, RANKS(0, 0), NONE);
    ASSERT_REFUSED(&d, "component 0 (l3) of rank 1 waits for message 1 from rank 0, where no "
                       "component sends it to rank 1");
}

TEST(a_rank_that_there_is_not_is_refused)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, RANKS(2));
    rank_begin(&d);
    declare(&d, "l3", 0, RANKS(0), NONE);
    ASSERT_REFUSED(&d, "component 0 (l1) of rank 0: out_ranks names rank 2, there are 2");
    d = (struct declared){.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, RANKS(-1), NONE);
    ASSERT_REFUSED(&d, "component 0 (l1) of rank 0: in_ranks names rank -1, there are 1");
}

TEST(a_model_takes_one_value)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", LK__IS_MODEL, NONE, RANKS(0, 0));
    declare(&d, "l2", LK__IS_MODEL, RANKS(0, 0), NONE);
    ASSERT_REFUSED(&d,
                   "component 1 (l2) of rank 0 is a model, which takes one value, and has several "
                   "in_ranks: add a function that joins what comes from them");
}

TEST(values_in_a_circle_are_refused)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, RANKS(1), RANKS(1));
    declare(&d, "y", 0, NONE, NONE);
    rank_begin(&d);
    declare(&d, "l2", 0, RANKS(0), RANKS(0));
    ASSERT_REFUSED(&d,
                   "values are waited for in a circle: component 0 (l1) of rank 0, receiving "
                   "from rank 1, waits for component 0 (l2) of rank 1; component 0 (l2) of rank "
                   "1, receiving from rank 0, waits for component 0 (l1) of rank 0");
}

TEST(components_in_an_order_that_waits_for_ever_are_refused)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, RANKS(1), NONE);
    declare(&d, "l2", 0, NONE, RANKS(1));
    rank_begin(&d);
    declare(&d, "l3", 0, RANKS(0), NONE);
    declare(&d, "l4", 0, NONE, RANKS(0));
    ASSERT_REFUSED(&d,
                   "values are waited for in a circle: component 0 (l1) of rank 0, receiving "
                   "from rank 1, waits for component 1 (l4) of rank 1; component 0 (l3) of rank "
                   "1, receiving from rank 0, waits for component 1 (l2) of rank 0");
}

static struct declared ring(int ranks, const char *name)
{
    struct declared d = {.n = 0};
    for (int r = 0; r < ranks; r++) {
        rank_begin(&d);
        declare(&d, name, 0, NONE, RANKS((r + 1) % ranks));
        declare(&d, name, 0, RANKS((r + ranks - 1) % ranks), NONE);
    }
    return d;
}

TEST(sends_in_a_circle_are_refused)
{
    struct declared d = ring(2, "l");
    ASSERT_REFUSED(&d, "sends wait for their receives in a circle, add a component that receives "
                       "before one that sends: component 0 (l) of rank 0, sending to rank 1, waits "
                       "for component 1 (l) of rank 1; component 0 (l) of rank 1, sending to rank "
                       "0, waits for component 1 (l) of rank 0");
}

/* Ranks outside the circle lead to it, and are not shown. */
TEST(a_circle_is_shown_without_those_who_wait_for_it)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "a", 0, RANKS(1), NONE);
    rank_begin(&d);
    declare(&d, "b", 0, RANKS(2), RANKS(0, 2));
    rank_begin(&d);
    declare(&d, "c", 0, RANKS(1), RANKS(1));
    ASSERT_REFUSED(&d,
                   "values are waited for in a circle: component 0 (b) of rank 1, receiving from "
                   "rank 2, waits for component 0 (c) of rank 2; component 0 (c) of rank 2, "
                   "receiving from rank 1, waits for component 0 (b) of rank 1");
}

TEST(a_long_circle_is_shown_in_part)
{
    struct declared d = ring(8, "a name of thirty-one characters");
    ASSERT_EQ(check(&d), LK_EINVAL);
    const char *text = lk_error_message();
    ASSERT_TRUE(
        strstr(text, "component 0 (a name of thirty-one characters) of rank 0, sending to"));
    const char *end = text + strlen(text) - strlen("; and so on");
    ASSERT_TRUE(strcmp(end, "; and so on") == 0);
    lk_error_clear();
}

/* One that receives first opens the circle, whoever it is. */
TEST(one_that_receives_first_opens_a_circle)
{
    for (int ranks = 2; ranks <= 7; ranks++)
        for (int first = 0; first < ranks; first++) {
            struct declared d = {.n = 0};
            for (int r = 0; r < ranks; r++) {
                const int *left = RANKS((r + ranks - 1) % ranks), *right = RANKS((r + 1) % ranks);
                rank_begin(&d);
                declare(&d, "l", 0, r == first ? left : NONE, r == first ? NONE : right);
                declare(&d, "l", 0, r == first ? NONE : left, r == first ? right : NONE);
            }
            ASSERT_OK(check(&d));
        }
}

TEST(a_rank_may_have_no_component)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, NONE);
    rank_begin(&d);
    ASSERT_OK(check(&d));
}

TEST(a_check_without_memory_says_so)
{
    struct declared d = {.n = 0};
    rank_begin(&d);
    declare(&d, "l1", 0, NONE, NONE);
    lk_alloc_fail_at(1);
    ASSERT_FAILS(check(&d), LK_ENOMEM, "memory");
    lk_alloc_fail_at(0);
}
