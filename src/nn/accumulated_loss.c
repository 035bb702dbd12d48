/* The losses of an accumulator: that of what comes out of the model, and those of terms, each of whole
 * samples or of tiles.  Trainers add those of each pass, on the thread of the tape, and read what the
 * passes of a micro-batch have come to.
 */
#include "base/fpenv.h"
#include "nn/model.h"

/* Where the loss of a leaf is: of a term, or with -1 of the loss itself. */
static lk_tensor *loss_place(const lk_accumulator *accumulator, int64_t term, int64_t *leaf)
{
    if (term < 0)
        return accumulator->loss;
    *leaf += accumulator->term_at[term];
    return accumulator->terms;
}

lk_status lk__accumulator_add_term(lk_accumulator *accumulator, int64_t term, int64_t leaf,
                                   lk_var loss)
{
    double value, before;
    lk_tensor *to = loss_place(accumulator, term, &leaf);
    LK_TRY(lk_item(loss, &value));
    LK_TRY(lk_tensor_get_f64(to, LK_AT(leaf), &before));
    return LK_TRACE(lk_tensor_set_f64(to, LK_AT(leaf), before + value));
}

lk_status lk_accumulator_add_loss(lk_accumulator *accumulator, lk_var loss)
{
    LK_FP_GUARD();
    return LK_TRACE(lk__accumulator_add_term(accumulator, -1, 0, loss));
}

double lk__accumulator_term(const lk_accumulator *accumulator, int64_t term, int64_t leaf)
{
    double value = 0;
    const lk_tensor *from = loss_place(accumulator, term, &leaf);
    if (lk_tensor_get_f64(from, LK_AT(leaf), &value) != LK_OK)
        lk_error_clear();
    return value;
}

double lk_accumulator_loss(const lk_accumulator *accumulator)
{
    return lk__accumulator_term(accumulator, -1, 0);
}
