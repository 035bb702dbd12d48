/* The shuffle buffers of a loader: samples of a stream, read in order and kept until their positions come.
 *
 * A buffer has the samples of a range of positions (order.c), and of them those that this loader is asked
 * for: a rank reads past the others' without decoding them.  While batches are made of one buffer, readers
 * that have nothing else to do fill the next one.  One thread at a time reads the set; others wait, or take
 * from buffers that are full.
 */
#ifndef LK_DATA_BUFFERS_H
#define LK_DATA_BUFFERS_H

#include <lockstep/data.h>

#include <pthread.h>

typedef struct lk__buffer {
    int64_t key; /* epoch * buffers of an epoch + number; -1: it is empty */
    int64_t epoch, number;
    lk_range positions, part; /* of the epoch; of each batch, those that are wanted */
    bool planned;             /* the next three are made */
    int64_t *sample;          /* at each position */
    int64_t *place; /* the position, from 0 on, of each sample in the order they are read */
    int64_t *row;   /* of each position in `rows`; -1: it is not wanted */
    int64_t room;   /* of these three */
    char *rows;
    int64_t rows_room;
    int64_t loaded; /* samples, in the order they are read */
    int pins;       /* readers that use it */
} lk__buffer;

typedef struct lk__buffers {
    int n; /* 0: there are none, any sample can be had at once */
    lk__buffer *buffer;
    int64_t *runs; /* for order.c */
    int64_t row_bytes, field_at[LK_MAX_FIELDS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool loading; /* a thread reads the set */
    bool failed;  /* reading ahead has: who needs the samples will hear of it */
} lk__buffers;

/** Make those of a loader, if its order needs any. */
lk_status lk__buffers_start(lk_loader *l) LK_NODISCARD;

void lk__buffers_free(lk_loader *l);

/** Forget all samples. */
void lk__buffers_drop(lk_loader *l);

/** The bytes of the samples that they hold at once, of which `part` of each batch are wanted. */
int64_t lk__buffers_bytes(const lk_loader *l, int64_t part);

/** The buffer of a position of an epoch, full, for a request of positions `part` of each batch; to be given
 * back by lk__buffers_release(). */
lk_status lk__buffers_hold(lk_loader *l, int64_t epoch, int64_t position, lk_range part,
                           lk__buffer **out) LK_NODISCARD;

void lk__buffers_release(lk_loader *l, lk__buffer *b);

/** Where the fields of the sample at a position of a buffer are; all NULL if they are in a cache. */
void lk__buffer_row(const lk_loader *l, const lk__buffer *b, int64_t position, const void **row);

/** Read some samples that will be wanted behind a position of an epoch; false: there is nothing to do. */
bool lk__buffers_ahead(lk_loader *l, int64_t epoch, int64_t position, lk_range part);

#endif /* LK_DATA_BUFFERS_H */
