/* Building a chain list: ranks exchange their declarations, all check the same table, models that are not
 * built get their shapes, and all models get what passes add up.
 *
 * What can fail on one rank alone (memory, a model, a function) is agreed on before the next exchange.
 */
#include "coll/agree.h"
#include "nn/model.h"
#include "parallel/chain/chain.h"
#include "parallel/plan/rank_rows.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

/* ---- the table ---- */

static int64_t rows_count(const lk_chain *chain)
{
    int64_t n = 0;
    for (int64_t k = 0; k < chain->n; k++)
        n += 1 + (int64_t)lk__component_takes(&chain->component[k]) +
             lk__component_gives(&chain->component[k]);
    return n;
}

static lk__chain_row *rows_write_ranks(lk__chain_row of, lk__row_kind kind, const int *ranks, int n,
                                       int carry, lk__chain_row *row)
{
    of.kind = kind;
    for (int i = 0; i < n; i++) {
        of.peer = ranks[i];
        of.flags |= i == carry ? LK__IS_CARRY : 0;
        *row++ = of;
    }
    return row;
}

static void rows_write(const lk_chain *chain, lk__chain_row *row)
{
    for (int64_t k = 0; k < chain->n; k++) {
        const lk__component *c = &chain->component[k];
        bool open = c->is.model && !c->is.model->net;
        lk__chain_row of = {.kind = LK__ROW_COMPONENT, .component = k};
        of.flags = (c->is.model ? LK__IS_MODEL : 0) | (open ? LK__IS_OPEN : 0) |
                   (lk__component_is_output(c) ? 0 : LK__HAS_OUT);
        memcpy(of.name, c->name, sizeof of.name);
        *row++ = of;
        row = rows_write_ranks(of, LK__ROW_IN, c->in, lk__component_takes(c), c->n_in, row);
        row = rows_write_ranks(of, LK__ROW_OUT, c->out, lk__component_gives(c), c->n_out, row);
    }
}

static lk_status rows_check(lk__chain_row *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        row[i].name[LK_COMPONENT_NAME - 1] = '\0';
        LK_CHECK(row[i].kind >= 0 && row[i].kind < LK__N_ROW_KINDS, LK_ECOMM,
                 "row %lld of the chain is of kind %lld", (long long)i, (long long)row[i].kind);
    }
    return LK_OK;
}

/* Whether the chain can run, and whether it has a model anywhere that is not built. */
static lk_status table_check(const lk_chain *chain, const lk__rank_rows *all, bool *open)
{
    int size = lk_comm_size(chain->comm);
    lk__chain_row *row = all->row;
    LK_TRY(rows_check(row, all->first[size]));
    lk__chain_table table = {.ranks = size, .first = all->first, .row = row};
    LK_TRY(lk_agree(chain->comm, lk__chain_check(&table)));
    *open = false;
    for (int64_t i = 0; i < all->first[size]; i++)
        *open = *open || row[i].flags & LK__IS_OPEN;
    return LK_OK;
}

static lk_status table_agree(const lk_chain *chain, bool *open)
{
    lk__chain_row *own = NULL;
    lk__rank_rows all = {.first = NULL};
    int64_t n = rows_count(chain);
    lk_status st = lk_alloc(&own, n, sizeof *own);
    LK_TRY_TO(done, lk_agree(chain->comm, st));
    rows_write(chain, own);
    LK_TRY_TO(done,
              lk__rank_rows_gather(chain->comm, own, n, LK__ROW_WORDS, "chain: components", &all));
    LK_TRY_TO(done, table_check(chain, &all, open));
done:
    lk_free(own);
    lk__rank_rows_free(&all);
    return st;
}

/* ---- shapes ---- */

static lk_status trial_begin(lk_chain *chain, const lk_tensor_type *x, int n_x, lk_tape **tape,
                             lk_var **zeros)
{
    LK_CHECK(n_x >= 0 && (x || n_x == 0), LK_EINVAL, "types of %d x", n_x);
    LK_TRY(lk__chain_make_room(chain, n_x));
    LK_TRY(lk_tape_new(tape));
    (void)lk_tape_set_recording(*tape, false);
    LK_TRY(lk_alloc(zeros, n_x, sizeof **zeros));
    for (int i = 0; i < n_x; i++)
        LK_TRY(lk_full(*tape, x[i].dtype, x[i].shape, 0, &(*zeros)[i]));
    return LK_OK;
}

/* Run all components of all ranks on zeros, so that each model that is not built gets its shape. */
static lk_status trial_run(lk_chain *chain, const lk_tensor_type *x, int n_x)
{
    lk_status st;
    lk_tape *tape = NULL;
    lk_var *zeros = NULL;
    LK_TRY_TO(done, lk_agree(chain->comm, trial_begin(chain, x, n_x, &tape, &zeros)));
    LK_TRY_TO(done, lk__agree_words(chain->comm, lk__chain_run(chain, &(lk_pass){.tape = tape},
                                                               zeros, n_x, true, NULL)));
done:
    lk_free(zeros);
    lk_tape_free(tape);
    return st;
}

static lk_status accumulators_make(lk_chain *chain)
{
    LK_TRY(lk__chain_make_room(chain, 0));
    for (int64_t k = 0; k < chain->n; k++) {
        lk__component *c = &chain->component[k];
        if (!c->is.model)
            continue;
        if (!c->is.model->net->params)
            LK_TRY(lk_model_hold(c->is.model, NULL));
        LK_TRY(lk_accumulator_new(c->is.model, &c->accumulator));
    }
    return LK_OK;
}

lk_status lk_chain_build(lk_chain *chain, const lk_tensor_type *x, int n_x)
{
    bool open = false;
    LK_CHECK(chain, LK_EINVAL, "chain is NULL");
    LK_CHECK(!chain->closed, LK_ESTATE, "%s",
             chain->built ? "the chain is already built"
                          : "the chain was refused, and can only be freed");
    chain->closed = true;
    LK_TRY(table_agree(chain, &open));
    if (open)
        LK_TRY(trial_run(chain, x, n_x));
    LK_TRY(lk_agree(chain->comm, accumulators_make(chain)));
    chain->built = true;
    return LK_OK;
}
