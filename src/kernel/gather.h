/* Elements that are spread in memory, one after the other. */
#ifndef LK_KERNEL_GATHER_H
#define LK_KERNEL_GATHER_H

#include <stddef.h>
#include <stdint.h>

/* A matrix in memory: element (r, c) lies r * row_step + c * step elements after the first. */
typedef struct lk__gather {
    size_t size; /* of an element, in bytes */
    int64_t rows, cols, row_step, step;
} lk__gather;

/** dst = the elements of the matrix at `src` in row-major order. */
void lk__gather_run(const lk__gather *g, const char *src, char *dst);

#endif /* LK_KERNEL_GATHER_H */
