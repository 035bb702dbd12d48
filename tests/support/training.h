/* A trainer and what it stands on, as tests make and free them; the set is of two arrays in memory. */
#ifndef LK_TESTS_TRAINING_H
#define LK_TESTS_TRAINING_H

#include "harness.h"

#include <lockstep/train.h>

/* All that a training needs; what is NULL was not made. */
struct training {
    lk_arena *arena;
    lk_dataset *set;
    lk_loader *loader;
    lk_model *model;
    lk_trainer *trainer;
};

static inline void training_free(struct training *t)
{
    lk_trainer_free(t->trainer);
    lk_model_free(t->model);
    lk_loader_free(t->loader);
    lk_dataset_free(t->set);
    lk_arena_free(t->arena);
}

/* The set of `x` and `y`, which are freed; 0 classes: `y` are the targets themselves. */
static inline lk_dataset *training_set(lk_tensor *x, lk_tensor *y, int64_t classes)
{
    lk_dataset_info info = {.name = "a test",
                            .classes = classes,
                            .n_fields = 2,
                            .field = {{.name = "x"}, {.name = "y"}}};
    lk_dataset *set = NULL;
    ASSERT_OK(lk_dataset_from_tensors(&info, (lk_tensor *[]){x, y}, &set));
    lk_tensor_free(x);
    lk_tensor_free(y);
    return set;
}

#endif /* LK_TESTS_TRAINING_H */
