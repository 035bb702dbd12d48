/* Which box of each field a loader gives: lk_loader_set_box() and what follows from it for the shapes of
 * batches.  The thread that reads batches calls it, between two of them.
 */
#include "data/dataset.h"
#include "data/loader/loader.h"

#include <string.h>

lk_field lk_loader_whole_field(const lk_loader *l, int f)
{
    return f >= 0 && f < l->info->n_fields ? l->field[f] : (lk_field){.name = ""};
}

lk_field lk_loader_field(const lk_loader *l, int f)
{
    lk_field field = lk_loader_whole_field(l, f);
    if (field.name[0]) /* axes behind those of the set, such as classes, are whole */
        memcpy(field.shape.dim, l->box[f].n, (size_t)l->box[f].ndim * sizeof l->box[f].n[0]);
    return field;
}

lk_box lk_loader_box(const lk_loader *l, int f)
{
    return l->box[f];
}

lk_status lk_loader_set_box(lk_loader *l, int f, const lk_box *box)
{
    lk_box whole = {0};
    if (f >= 0 && f < l->info->n_fields)
        whole = lk__field_whole(&l->info->field[f]);
    box = box ? box : &whole;
    LK_TRY(lk__box_check(l->ds, f, box));
    if (lk_box_is_equal(box, &l->box[f]))
        return LK_OK;
    lk__affine map = {.channels = 0};
    if (f == l->x && l->affine.channels > 0) {
        lk_status st = lk__affine_part(&l->affine, l->options.dtype, box, &map);
        if (st != LK_OK) {
            lk__affine_free(&map);
            LK_TRY(st);
        }
    }
    lk__loader_pause(l);
    lk__cache_close(l);
    lk__keep_drop(l);
    if (f == l->x) {
        lk__affine_free(&l->map);
        l->map = map;
    }
    l->box[f] = *box;
    l->boxed[f] = !lk_box_is_equal(box, &whole);
    l->layout++;
    lk__scratch_drop(l);
    return LK_OK;
}
