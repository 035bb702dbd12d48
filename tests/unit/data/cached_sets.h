/* A set for tests of caches, which counts how often it is asked, and loaders of it. */
#ifndef LK_TESTS_CACHED_SETS_H
#define LK_TESTS_CACHED_SETS_H

#include "data_files.h"

#include <stdatomic.h>

/* Samples out of nothing: "x" is u8 [6][8][3], "y" i64 [6][8], classes of the pixels, "z" f64. */
enum { COUNT = 9, CLASSES = 4 };

static _Atomic int reads; /* of rows and boxes */
static int64_t salt;      /* decides the values */

static const lk_dataset_info made_info = {
    .name = "made",
    .count = COUNT,
    .classes = CLASSES,
    .n_fields = 3,
    .field = {{.name = "x", .dtype = LK_U8, .shape = {3, {6, 8, 3}}},
              {.name = "y", .dtype = LK_I64, .shape = {2, {6, 8}}},
              {.name = "z", .dtype = LK_F64}},
};

static inline lk_status made_box(void *context, int64_t index, int field, const lk_box *box,
                                 void *out)
{
    (void)context;
    reads++;
    lk_box_walk walk = lk_box_start(box, made_info.field[field].shape.dim);
    while (lk_box_next(&walk))
        for (int64_t i = 0; i < walk.n; i++) {
            int64_t v = (index * 7919 + field * INT64_C(131) + (walk.place + i) * 37 + salt) *
                            2654435 >>
                        7;
            if (field == 0)
                ((unsigned char *)out)[walk.at + i] = (unsigned char)v;
            else if (field == 1)
                ((int64_t *)out)[walk.at + i] = (v & 255) % CLASSES;
            else
                ((double *)out)[walk.at + i] = (double)(v & 255) / 3;
        }
    return LK_OK;
}

static inline lk_status made_row(void *context, int64_t index, void *const *row)
{
    for (int f = 0; f < 3; f++) {
        lk_box whole = lk_box_whole(made_info.field[f].shape.ndim, made_info.field[f].shape.dim);
        if (row[f])
            LK_TRY(made_box(context, index, f, &whole, row[f]));
    }
    return LK_OK;
}

static inline lk_dataset *set_of(bool boxes)
{
    lk_dataset *ds;
    if (boxes)
        ASSERT_OK(lk_dataset_new_boxes(&made_info, NULL, made_box, NULL, NULL, &ds));
    else
        ASSERT_OK(lk_dataset_new(&made_info, made_row, NULL, NULL, &ds));
    return ds;
}

static inline lk_loader *loader_of(lk_dataset *ds, const char *options)
{
    lk_loader *l;
    ASSERT_OK(lk_loader_new(ds, options, 5, &l));
    return l;
}

static const lk_box tile[] = {{3, {1, 5, 0}, {2, 3, 3}}, {2, {1, 5}, {2, 3}}};

static inline void set_tile(lk_loader *l)
{
    ASSERT_OK(lk_loader_set_box(l, 0, &tile[0]));
    ASSERT_OK(lk_loader_set_box(l, 1, &tile[1]));
}

static inline lk_status read_one(lk_dataset *ds, const char *options, const char *path, bool cut)
{
    lk_loader *l;
    lk_batch b;
    LK_TRY(lk_loader_new(ds, options, 5, &l));
    lk_status st = LK_OK;
    if (cut)
        LK_TRY_TO(done, lk_loader_set_box(l, 0, &tile[0]));
    LK_TRY_TO(done, lk_loader_set_cache(l, path, "0", "1"));
    LK_TRY_TO(done, lk_loader_read_batch(l, 0, 0, 0, 4, &b));
done:
    lk_loader_free(l);
    return st;
}

#endif /* LK_TESTS_CACHED_SETS_H */
