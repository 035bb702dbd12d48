/* A power cut at every point of a trace of calls to the disk.
 *
 * The trace is replayed into a model of a file system.  It knows what was synced, and what may be lost:
 *
 *   - of a file that was not synced since it was written: all of that, half of it, all but its length
 *     (zeros), or the first half of it;
 *   - of a folder that was not synced since names were made, changed or removed in it: any of these
 *     changes, in any combination, whatever came later.
 *
 * After each call all combinations are made on a real disk, as long as they are few, else some of them
 * (none and all of it, each change alone, each one missing, and random ones), and a check of the test
 * looks at each, once for each state and acknowledgement.
 */
#ifndef LK_TEST_CRASH_H
#define LK_TEST_CRASH_H

#include "base/storage/fault.h"
#include "harness.h"

#include <lockstep/hash.h>

#include <ftw.h>
#include <sys/stat.h>

enum { CRASH_NAME = 128, CRASH_CHOICES = 96, CRASH_VARIANTS = 5 };

/* ---- the trace ---- */

typedef struct crash_event {
    lk__storage_call call;
    bool folder, mark;
    char *path, *to;
    int64_t offset, bytes; /* of a mark: what is acknowledged */
    unsigned char *data;
} crash_event;

typedef struct crash_trace {
    char root[256]; /* the folder that all happens in; it stays */
    crash_event *event;
    int64_t n, room;
} crash_trace;

static inline crash_event *crash_add(crash_trace *t)
{
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->event = realloc(t->event, (size_t)t->room * sizeof *t->event);
        ASSERT_TRUE(t->event);
    }
    t->event[t->n] = (crash_event){.mark = false};
    return &t->event[t->n++];
}

static inline void crash_told(void *arg, const lk__storage_event *e)
{
    crash_trace *t = arg;
    crash_event *c = crash_add(t);
    c->call = e->call;
    c->folder = e->folder;
    c->path = strdup(e->path);
    c->to = e->to ? strdup(e->to) : NULL;
    c->offset = e->offset;
    c->bytes = e->bytes;
    if (e->data) {
        c->data = malloc((size_t)e->bytes);
        memcpy(c->data, e->data, (size_t)e->bytes);
    }
}

/* Record all calls below `root`, a path as the program gives it. */
static inline void crash_record(crash_trace *t, const char *root)
{
    *t = (crash_trace){.n = 0};
    snprintf(t->root, sizeof t->root, "%s", root);
    lk__storage_sync_skip(true);
    lk__storage_trace(crash_told, t);
}

/* From here on `value` is acknowledged. */
static inline void crash_mark(crash_trace *t, int64_t value)
{
    crash_event *c = crash_add(t);
    c->mark = true;
    c->bytes = value;
}

static inline void crash_stop(void)
{
    lk__storage_trace(NULL, NULL);
}

static inline void crash_free(crash_trace *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        free(t->event[i].path);
        free(t->event[i].to);
        free(t->event[i].data);
    }
    free(t->event);
}

/* ---- the file system ---- */

typedef struct crash_bytes {
    unsigned char *data;
    int64_t n;
} crash_bytes;

struct crash_node;

/* A name in a folder, or with node NULL the removal of one. */
typedef struct crash_entry {
    char name[CRASH_NAME], from[CRASH_NAME]; /* `from`: the name that it had before; "": none */
    struct crash_node *node;
} crash_entry;

typedef struct crash_entries {
    crash_entry *at;
    int64_t n;
} crash_entries;

typedef struct crash_node {
    bool folder;
    crash_bytes now, disk; /* of a file */
    crash_entries names, kept,
        change;              /* of a folder: now, as synced, and what was done since then */
    struct crash_node *next; /* of all */
} crash_node;

typedef struct crash_check {
    void (*fn)(void *arg, const char *folder, int64_t acknowledged);
    void *arg;
    int64_t most;  /* combinations of one point that are tried */
    int64_t every; /* look at each n-th state only; 0: at all */
} crash_check;

typedef struct crash_disk {
    crash_node *root, *all;
    const crash_check *check;
    char folder[256]; /* where states are made */
    int64_t acknowledged, states, points;
    uint64_t *seen;
    int64_t n_seen, room_seen;
    int choice[CRASH_CHOICES]; /* of the state that is made */
    int n_choices;
    int of[CRASH_CHOICES]; /* how many there are of each */
    uint64_t random;
} crash_disk;

static inline crash_node *crash_node_new(crash_disk *d, bool folder)
{
    crash_node *node = calloc(1, sizeof *node);
    ASSERT_TRUE(node);
    node->folder = folder;
    node->next = d->all;
    d->all = node;
    return node;
}

static inline crash_entry *crash_find(const crash_entries *e, const char *name)
{
    for (int64_t i = 0; i < e->n; i++)
        if (strcmp(e->at[i].name, name) == 0)
            return &e->at[i];
    return NULL;
}

static inline void crash_push(crash_entries *e, const char *name, const char *from,
                              crash_node *node)
{
    e->at = realloc(e->at, (size_t)(e->n + 1) * sizeof *e->at);
    ASSERT_TRUE(e->at);
    crash_entry *added = &e->at[e->n++];
    snprintf(added->name, sizeof added->name, "%s", name);
    snprintf(added->from, sizeof added->from, "%s", from);
    added->node = node;
}

static inline void crash_drop(crash_entries *e, const char *name)
{
    crash_entry *found = crash_find(e, name);
    if (found)
        *found = e->at[--e->n];
}

/* A change of names, to what is there. */
static inline void crash_change(crash_entries *e, const crash_entry *change)
{
    if (change->from[0])
        crash_drop(e, change->from);
    crash_drop(e, change->name);
    if (change->node)
        crash_push(e, change->name, "", change->node);
}

static inline void crash_do(crash_node *folder, const char *name, const char *from,
                            crash_node *node)
{
    crash_push(&folder->change, name, from, node);
    crash_change(&folder->names, &folder->change.at[folder->change.n - 1]);
}

static inline void crash_copy(crash_bytes *to, const crash_bytes *from)
{
    to->data = realloc(to->data, (size_t)from->n + 1);
    memcpy(to->data, from->n ? from->data : (unsigned char *)"", (size_t)from->n);
    to->n = from->n;
}

static inline void crash_resize(crash_bytes *b, int64_t n)
{
    b->data = realloc(b->data, (size_t)n + 1);
    if (n > b->n)
        memset(b->data + b->n, 0, (size_t)(n - b->n));
    b->n = n;
}

/* The folder that `path` lies in, and its last name; NULL: it lies elsewhere. */
static inline crash_node *crash_place(const crash_disk *d, const char *root, const char *path,
                                      char name[CRASH_NAME])
{
    size_t n = strlen(root);
    crash_node *folder = d->root;
    name[0] = '\0';
    if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
        return NULL;
    for (const char *at = path + n; *at;) {
        at += strspn(at, "/");
        size_t k = strcspn(at, "/");
        if (k == 0)
            break;
        if (name[0]) {
            crash_entry *e = crash_find(&folder->names, name);
            ASSERT_TRUE(e && e->node->folder);
            folder = e->node;
        }
        snprintf(name, CRASH_NAME, "%.*s", (int)k, at);
        at += k;
    }
    return folder;
}

static inline void crash_apply(crash_disk *d, const char *root, const crash_event *e)
{
    char name[CRASH_NAME], to[CRASH_NAME];
    crash_node *folder = crash_place(d, root, e->path, name);
    if (!folder)
        return;
    crash_entry *entry = name[0] ? crash_find(&folder->names, name) : NULL;
    crash_node *node = name[0] ? (entry ? entry->node : NULL) : d->root;
    switch (e->call) {
    case LK__STORAGE_OPEN:
        if (!node)
            crash_do(folder, name, "", crash_node_new(d, false));
        break;
    case LK__STORAGE_MKDIR: crash_do(folder, name, "", crash_node_new(d, true)); break;
    case LK__STORAGE_WRITE:
        if (node->now.n < e->offset + e->bytes)
            crash_resize(&node->now, e->offset + e->bytes);
        memcpy(node->now.data + e->offset, e->data, (size_t)e->bytes);
        break;
    case LK__STORAGE_TRUNCATE: crash_resize(&node->now, e->bytes); break;
    case LK__STORAGE_SYNC:
        if (node->folder) {
            free(node->kept.at);
            node->kept = (crash_entries){.n = 0};
            for (int64_t i = 0; i < node->names.n; i++)
                crash_push(&node->kept, node->names.at[i].name, "", node->names.at[i].node);
            node->change.n = 0;
        } else {
            crash_copy(&node->disk, &node->now);
        }
        break;
    case LK__STORAGE_RENAME:
        ASSERT_TRUE(crash_place(d, root, e->to, to) == folder); /* the program does no other */
        crash_do(folder, to, name, node);
        break;
    case LK__STORAGE_REMOVE: crash_do(folder, name, "", NULL); break;
    default: break;
    }
}

/* ---- what may be left of it ---- */

static inline bool crash_dirty(const crash_node *file)
{
    return file->now.n != file->disk.n ||
           (file->now.n > 0 && memcmp(file->now.data, file->disk.data, (size_t)file->now.n) != 0);
}

/* The next choice: one of `n`. */
static inline int crash_choose(crash_disk *d, int n)
{
    ASSERT_TRUE(d->n_choices < CRASH_CHOICES);
    d->of[d->n_choices] = n;
    return d->choice[d->n_choices++] % n;
}

/* What is left of a file. */
static inline crash_bytes crash_file(crash_disk *d, const crash_node *file)
{
    crash_bytes left = {0};
    int how = crash_dirty(file) ? crash_choose(d, CRASH_VARIANTS) : 0;
    int64_t same = file->disk.n < file->now.n ? file->disk.n : file->now.n;
    int64_t half = same + (file->now.n - same) / 2;
    crash_copy(&left, how == 0 ? &file->disk : &file->now);
    if (how == 2)
        crash_resize(&left, half);
    if (how == 3 && left.n > same)
        memset(left.data + same, 0, (size_t)(left.n - same));
    if (how == 4 && half > same)
        memset(left.data + same, 0, (size_t)(half - same));
    return left;
}

/* What is left of a folder, to `path` if it is to be made; its hash. */
static inline uint64_t crash_tree(crash_disk *d, const crash_node *folder, const char *path,
                                  bool make)
{
    crash_entries left = {0};
    uint64_t sum = 0;
    for (int64_t i = 0; i < folder->kept.n; i++)
        crash_push(&left, folder->kept.at[i].name, "", folder->kept.at[i].node);
    for (int64_t i = 0; i < folder->change.n; i++)
        if (crash_choose(d, 2) == 1)
            crash_change(&left, &folder->change.at[i]);
    if (make)
        ASSERT_EQ(mkdir(path, 0700), 0);
    for (int64_t i = 0; i < left.n; i++) {
        const crash_entry *e = &left.at[i];
        char inner[512];
        lk_hash h = lk_hash_start();
        snprintf(inner, sizeof inner, "%s/%s", path, e->name);
        lk_hash_add_bytes(&h, e->name, strlen(e->name));
        if (e->node->folder) {
            uint64_t tree = crash_tree(d, e->node, inner, make);
            lk_hash_add_bytes(&h, &tree, sizeof tree);
        } else {
            crash_bytes bytes = crash_file(d, e->node);
            lk_hash_add_bytes(&h, bytes.data, (size_t)bytes.n);
            FILE *f = make ? fopen(inner, "wb") : NULL;
            if (make)
                ASSERT_TRUE(f && fwrite(bytes.data, 1, (size_t)bytes.n, f) == (size_t)bytes.n &&
                            fclose(f) == 0);
            free(bytes.data);
        }
        sum += lk_hash_value(&h) * 2 + 1; /* in any order */
    }
    free(left.at);
    return sum;
}

static inline bool crash_is_new(crash_disk *d, uint64_t state)
{
    for (int64_t i = 0; i < d->n_seen; i++)
        if (d->seen[i] == state)
            return false;
    if (d->n_seen == d->room_seen) {
        d->room_seen = d->room_seen ? 2 * d->room_seen : 256;
        d->seen = realloc(d->seen, (size_t)d->room_seen * sizeof *d->seen);
        ASSERT_TRUE(d->seen);
    }
    d->seen[d->n_seen++] = state;
    return true;
}

static inline int crash_remove(const char *path, const struct stat *about, int type, struct FTW *at)
{
    (void)about;
    (void)type;
    (void)at;
    return remove(path);
}

/* One state of this point, by the choices that are set; what there are to choose is known then. */
static inline void crash_state(crash_disk *d)
{
    d->n_choices = 0;
    uint64_t state = crash_tree(d, d->root, d->folder, false);
    if (!crash_is_new(d, state * 31 + (uint64_t)d->acknowledged))
        return;
    d->states++;
    if (d->check->every > 0 && d->states % d->check->every != 0)
        return;
    d->n_choices = 0;
    (void)crash_tree(d, d->root, d->folder, true);
    d->check->fn(d->check->arg, d->folder, d->acknowledged);
    ASSERT_EQ(nftw(d->folder, crash_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* All combinations; what is not chosen is not there to choose from, so the number of choices varies:
 * they are counted like digits, the last the fastest. */
static inline bool crash_next(crash_disk *d)
{
    for (int i = d->n_choices - 1; i >= 0; i--) {
        if (++d->choice[i] < d->of[i]) {
            memset(&d->choice[i + 1], 0, sizeof(int) * (size_t)(CRASH_CHOICES - 1 - i));
            return true;
        }
    }
    return false;
}

static inline int crash_random(crash_disk *d)
{
    d->random = d->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)(d->random >> 40);
}

static inline void crash_some(crash_disk *d)
{
    for (int all = 0; all < CRASH_VARIANTS; all++)
        for (int k = -1; k < CRASH_CHOICES; k++) {
            for (int i = 0; i < CRASH_CHOICES; i++)
                d->choice[i] = i == k ? all + 1 : all;
            crash_state(d);
            if (k >= d->n_choices)
                break;
        }
    for (int64_t n = 0; n < d->check->most; n++) {
        for (int i = 0; i < CRASH_CHOICES; i++)
            d->choice[i] = crash_random(d);
        crash_state(d);
    }
}

static inline void crash_point(crash_disk *d)
{
    int64_t n = 0;
    memset(d->choice, 0, sizeof d->choice);
    d->points++;
    do
        crash_state(d);
    while (++n < d->check->most && crash_next(d));
    if (n >= d->check->most)
        crash_some(d);
}

/* Let the power fail after each call of the trace; returns how many states there were. */
static inline int64_t crash_replay(const crash_trace *t, const crash_check *check)
{
    crash_disk d = {.check = check, .random = 1};
    bool memory = access("/dev/shm", W_OK) == 0;
    char above[64];
    snprintf(above, sizeof above, "%s/lockstep-crash-XXXXXX", memory ? "/dev/shm" : "/tmp");
    ASSERT_TRUE(mkdtemp(above));
    snprintf(d.folder, sizeof d.folder, "%s/root", above);
    d.root = crash_node_new(&d, true);
    for (int64_t i = 0; i < t->n; i++) {
        if (t->event[i].mark)
            d.acknowledged = t->event[i].bytes;
        else
            crash_apply(&d, t->root, &t->event[i]);
        crash_point(&d);
    }
    for (crash_node *n = d.all, *next; n; n = next) {
        next = n->next;
        free(n->now.data);
        free(n->disk.data);
        free(n->names.at);
        free(n->kept.at);
        free(n->change.at);
        free(n);
    }
    free(d.seen);
    ASSERT_EQ(rmdir(above), 0);
    printf("%lld calls, %lld states\n", (long long)t->n, (long long)d.states);
    return d.states;
}

#endif /* LK_TEST_CRASH_H */
