/* Tensors of files and checkpoints, as the verbs of `lockstep ckpt` read, measure and compare them. */
#ifndef LK_CLI_CKPT_TENSORS_H
#define LK_CLI_CKPT_TENSORS_H

#include <lockstep/checkpoint.h>
#include <lockstep/tensor.h>

/** lk_tensors_load(), with a warning on stderr for each newer checkpoint that was left out. */
lk_status tensors_open(const char *path, lk_tensors **out) LK_NODISCARD;

/** lk_checkpoint_read(), with the same warnings. */
lk_status checkpoint_open(const char *path, lk_checkpoint **out) LK_NODISCARD;

/** The text of the metadata of this name; NULL if there is none. */
const char *tensors_metadata(const lk_tensors *tensors, const char *name);

/** Of the finite elements; NaN if there are none. */
typedef struct numbers {
    double min, max, mean;
    int64_t not_finite; /* elements that are infinite or no number */
} numbers;

lk_status numbers_of(const lk_tensor *t, numbers *out) LK_NODISCARD;

/** How two contiguous tensors of one shape differ. */
typedef struct difference {
    int64_t elements;          /* that differ */
    double absolute, relative; /* the largest; relative to the larger of two magnitudes */
} difference;

lk_status numbers_compare(const lk_tensor *a, const lk_tensor *b, difference *out) LK_NODISCARD;

#endif /* LK_CLI_CKPT_TENSORS_H */
