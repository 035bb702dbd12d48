/* Topology: where the ranks are, and in which tiers they talk to each other.
 *
 * Tiers are dimensions of a grid of all ranks, the nearest first: X ranks that are close together,
 * Y of such groups, Z groups of those, W again.  The nearest is the fastest in the rank's number:
 *
 *     rank = x + X (y + Y (z + Z w))            4x3: host 0 has ranks 0-3, host 1 ranks 4-7, ...
 *
 * They are found (packages and hosts, as the ranks lie) or declared in a *mode*.
 */
#ifndef LK_TOPOLOGY_H
#define LK_TOPOLOGY_H

#include <lockstep/comm.h>

LK_BEGIN_DECLS

enum { LK_MAX_TIERS = 4, LK_MAX_TIER_SIZE = 1000000 };

/* How the ranks of a tier work together: letter, whether the sum is the canonical one, summary. */
#define LK_TIER_ALGORITHM_MAP(X)                                                               \
    X(BEST, 'b', true, "whichever of n and c has the lower predicted cost, tier by tier")      \
    X(NEAR, 'n', true, "every rank sends every other its part, at once")                       \
    X(RING, 'r', false, "parts go round a ring")                                               \
    X(MPI, 'm', false, "MPI_Reduce_scatter and MPI_Allgatherv")                                \
    X(CUT, 'c', true, "halves, then quarters, then eighths, where the tier is a power of two") \
    X(PROBE, 'p', true, "n and c are tried on the first calls, the faster one stays")

typedef enum lk_tier_algorithm {
#define X(code, letter, canonical, summary) LK_TIER_##code,
    LK_TIER_ALGORITHM_MAP(X)
#undef X
        LK_N_TIER_ALGORITHMS
} lk_tier_algorithm;

/** A mode, by value: what `b:4x3` says.  Without dimensions (n_tiers 0) they are as found. */
typedef struct lk_tier_spec {
    lk_tier_algorithm algorithm;
    int n_tiers;
    int size[LK_MAX_TIERS];
} lk_tier_spec;

/**
 * Read a mode: `LETTER:XxYxZxW`, `XxY` (the letter is b), or `LETTER` (tiers as found).
 *
 * Not collective.  Errors: LK_EINVAL, saying what is wrong at which character.
 */
LK_API lk_status lk_tier_spec_parse(const char *text, lk_tier_spec *out) LK_NODISCARD;

/** Write a mode as it is read, `b:4x3`; returns the length, less than LK_TIER_SPEC_TEXT. */
LK_API int lk_tier_spec_text(const lk_tier_spec *spec, char *out);

enum { LK_TIER_SPEC_TEXT = 48 };

/** 'b', 'n', ...; '?' for a value that is none. */
LK_API char lk_tier_algorithm_letter(lk_tier_algorithm algorithm);

/** Whether sums are the canonical ones: the fixed tree's, on any number of ranks. */
LK_API bool lk_tier_algorithm_is_canonical(lk_tier_algorithm algorithm);

/** One line about a letter; "?" for a value that is none. */
LK_API const char *lk_tier_algorithm_summary(lk_tier_algorithm algorithm);

/** Check that the tiers of `spec` hold `size` ranks.  Errors: LK_ESHAPE, showing both. */
LK_API lk_status lk_tier_spec_fit(const lk_tier_spec *spec, int size) LK_NODISCARD;

/** Where one rank is.  Numbers are -1 where they are not known, or the rank may be in several. */
typedef struct lk_location {
    int node;       /* numbered by their lowest rank */
    int package;    /* of the node: a socket */
    int cache;      /* of the node: the outermost cache that cores share */
    int n_cores;    /* processors that the rank may use */
    char cores[56]; /* which, "0-3,8"; cut where it is longer */
    char host[64];  /* the node's name */
} lk_location;

/** One tier of the topology. */
typedef struct lk_tier {
    const char *name; /* "package", "host", "hosts"; of declared ones "X", "Y", "Z", "W" */
    int size;         /* ranks, or groups of the tier before */
} lk_tier;

/** Where all ranks are: fields are to be read.  Made by lk_topology_new() for the program or the command, and
 * by DDL; any thread may read it.  Making one is collective. */
typedef struct lk_topology {
    int rank, size, n_nodes;
    int n_packages, n_cores; /* of this rank's machine, all packages together; 0 if not known */
    bool declared;
    lk_tier_algorithm algorithm;
    int n_tiers;
    lk_tier tier[LK_MAX_TIERS];
    const char *flat_reason; /* found, one tier on several hosts: why not more; otherwise NULL */
    const char *hardware_source; /* source of packages and caches: "hwloc", or why there is none */
    lk_location *location;       /* [size] */
} lk_topology;

/**
 * Where all ranks of `comm` are, and their tiers: those of `mode`, as lk_tier_spec_parse() reads it
 * ("b:4x3"), or as found (`mode` NULL, or without dimensions).
 *
 * Collective.  The caller owns `*out`.  Found tiers need the same number of ranks in each group, and
 * ranks of a group that follow each other; where they are otherwise there is one tier of all ranks,
 * and `flat_reason` says why.
 *
 * Errors: those of lk_tier_spec_parse(); LK_ESHAPE when the dimensions do not multiply to the number of
 * ranks, showing both; LK_ENOMEM and those of communication.
 */
LK_API lk_status lk_topology_new(lk_comm *comm, const char *mode, lk_topology **out) LK_NODISCARD;

/** As lk_topology_new(), of a spec that has been read, which is not needed afterwards. */
LK_API lk_status lk_topology_new_spec(lk_comm *comm, const lk_tier_spec *spec,
                                      lk_topology **out) LK_NODISCARD;

/** Release a topology.  NULL is allowed. */
LK_API void lk_topology_free(lk_topology *topology);

LK_END_DECLS

#endif /* LK_TOPOLOGY_H */
