/* Traits: what must be the same on all ranks (options, shapes, versions), as named numbers that are
 * gathered and compared.  Jobs, trainers and multi-node objects call it once, when they are made;
 * otherwise a difference would show late, or never.  Collective, on the rank's thread. */
#ifndef LK_COLL_TRAITS_H
#define LK_COLL_TRAITS_H

#include <lockstep/comm.h>

#include <stdbool.h>

/** Something that all ranks must have alike, as a number, or as the hash of it. */
typedef struct lk__trait {
    const char *name; /* "the batch"; of hashes "another optimizer" */
    int64_t value;
    bool is_hash;
} lk__trait;

/** Fail with `status` on all ranks, in the same words, unless the `n` traits, of the same names, are the same
 * on all; `rule` is what all ranks must do: "train the same".  Collective; NULL: this rank is alone. */
lk_status lk__traits_compare(lk_comm *comm, const lk__trait *trait, int n, lk_status status,
                             const char *rule) LK_NODISCARD;

/** The lowest rank that `differs`, as all know it; the number of ranks if none does.  Collective. */
lk_status lk__first_other(lk_comm *comm, bool differs, int *out) LK_NODISCARD;

#endif /* LK_COLL_TRAITS_H */
