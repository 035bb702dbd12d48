/* Finding the files that an option names: see files.h.  Formats call it when a set is opened. */
#include "data/files.h"

#include "base/memory/grow.h"
#include "base/storage/storage.h"

#include <lockstep/extra/alloc.h>

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What is found so far. */
struct finding {
    const char *suffix;
    lk_split split;
    lk_arena *arena;
    const char **path;
    int64_t n, room;
};

static lk_status add(struct finding *f, const char *path)
{
    LK_TRY(lk__grow(&f->path, &f->room, f->n + 1, sizeof *f->path));
    LK_TRY(lk_arena_text(f->arena, path, strlen(path), &f->path[f->n]));
    f->n++;
    return LK_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- files that are numbered ---- */

/* "-00003-of-00008" in a path: where it begins and how long it is; of how many it is one. */
struct numbers {
    const char *at;
    size_t length;
    long of;
};

static bool find_numbers(const char *path, struct numbers *out)
{
    const char *slash = strrchr(path, '/'), *digit = "0123456789";
    for (const char *at = slash ? slash : path; (at = strstr(at, "-of-")); at++) {
        size_t behind = strspn(at + 4, digit);
        const char *begin = at - behind - 1;
        if (behind == 0 || behind > 6 || begin < path || *begin != '-' ||
            strspn(begin + 1, digit) != behind)
            continue;
        *out = (struct numbers){begin, 2 * behind + 5, strtol(at + 4, NULL, 10)};
        return true;
    }
    return false;
}

/* The path with another number. */
static lk_status renumber(const char *path, const struct numbers *n, long number,
                          char out[LK_PATH_SIZE])
{
    int digits = (int)strspn(n->at + 1, "0123456789");
    int length = snprintf(out, LK_PATH_SIZE, "%.*s-%0*ld%s", (int)(n->at - path), path, digits,
                          number, n->at + 1 + digits);
    LK_CHECK(length >= 0 && length < LK_PATH_SIZE, LK_EINVAL, "the path %s is too long", path);
    return LK_OK;
}

/* Whether two paths are the same but for their numbers. */
static bool is_of_set(const char *a, const struct numbers *in_a, const char *b,
                      const struct numbers *in_b)
{
    size_t head = (size_t)(in_a->at - a);
    return head == (size_t)(in_b->at - b) && memcmp(a, b, head) == 0 &&
           strcmp(in_a->at + in_a->length, in_b->at + in_b->length) == 0;
}

/* All files that the numbers of `path` promise, and that `pattern` matches, are among those from `first`
 * on. */
static lk_status check_complete(const struct finding *f, int64_t first, const char *pattern,
                                const char *path, const struct numbers *n)
{
    char want[LK_PATH_SIZE];
    const char *key = want;
    for (long k = 0; k < n->of; k++) {
        LK_TRY(renumber(path, n, k, want));
        LK_CHECK(
            fnmatch(pattern, want, FNM_PATHNAME) != 0 ||
                bsearch(&key, f->path + first, (size_t)(f->n - first), sizeof *f->path, by_bytes),
            LK_EIO, "%s is missing: %s, which is there, is one of %ld files", want, path, n->of);
    }
    return LK_OK;
}

/* The files from `first` on are sorted, and match `pattern`. */
static lk_status check_numbers(const struct finding *f, int64_t first, const char *pattern)
{
    const char *before = NULL;
    struct numbers n, of_before = {0};
    for (int64_t i = first; i < f->n; i++) {
        const char *path = f->path[i];
        if (!find_numbers(path, &n))
            continue;
        bool same = before && is_of_set(path, &n, before, &of_before);
        LK_CHECK(!same || n.of == of_before.of, LK_EIO,
                 "%s is one of %ld files and %s one of %ld: they are not of one set; name one, or "
                 "delete the other",
                 path, n.of, before, of_before.of);
        if (!same)
            LK_TRY(check_complete(f, first, pattern, path, &n));
        before = path;
        of_before = n;
    }
    return LK_OK;
}

/* ---- files that hold the same ---- */

static const char packed[] = ".gz";

/* A path, and what it is without numbers and ".gz". */
struct plain {
    const char *path, *text;
    bool is_numbered, is_packed;
};

static int by_text(const void *a, const void *b)
{
    const struct plain *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : strcmp(x->path, y->path);
}

static lk_status plain_of(const struct finding *f, const char *path, struct plain *out)
{
    struct numbers n = {.at = path};
    char text[LK_PATH_SIZE];
    *out = (struct plain){path, NULL, find_numbers(path, &n), lk__path_ends(path, packed)};
    int length = snprintf(text, sizeof text, "%.*s%s", (int)(n.at - path), path, n.at + n.length);
    LK_CHECK(length >= 0 && length < LK_PATH_SIZE, LK_EINVAL, "the path %s is too long", path);
    length -= out->is_packed ? (int)sizeof packed - 1 : 0;
    return LK_TRACE(lk_arena_text(f->arena, text, (size_t)length, &out->text));
}

/* No two of the files from `first` on have the same name, the one packed and the other not, or the one
 * with numbers and the other without: samples would count twice. */
static lk_status check_twice(const struct finding *f, int64_t first)
{
    struct plain *file;
    int64_t n = f->n - first;
    LK_TRY(lk_arena_alloc(f->arena, &file, n, sizeof *file));
    for (int64_t i = 0; i < n; i++)
        LK_TRY(plain_of(f, f->path[first + i], &file[i]));
    qsort(file, (size_t)n, sizeof *file, by_text);
    for (int64_t i = 1; i < n; i++) {
        const struct plain *a = &file[i - 1], *b = &file[i];
        LK_CHECK(strcmp(a->text, b->text) != 0 ||
                     (a->is_numbered == b->is_numbered && a->is_packed == b->is_packed),
                 LK_EIO,
                 "%s and %s: both are %s, %s; their samples would count twice: name one, or delete "
                 "the other",
                 a->path, b->path, b->text,
                 a->is_packed == b->is_packed ? "in several files and in one" : "packed and plain");
    }
    return LK_OK;
}

/* ---- folders and patterns ---- */

bool lk__files_has_suffix(const char *name, const char *suffix)
{
    for (const char *at = name; (at = strstr(at, suffix)); at++) {
        const char *rest = at + strlen(suffix);
        struct numbers n;
        rest += *rest == 's';
        if (find_numbers(rest, &n) && n.at == rest)
            rest += n.length;
        if (!*rest || strcmp(rest, packed) == 0)
            return true;
    }
    return false;
}

/* The set of a name; LK_N_SPLITS if it tells none. */
static lk_split split_of(const char *name)
{
    static const char *const word[] = {
        [LK_TRAIN] = "train", [LK_VALIDATION] = "val", [LK_TEST] = "test"};
    lk_split split = LK_N_SPLITS;
    for (const char *at = name; *at; at++)
        for (int i = 0; i < LK_N_SPLITS; i++)
            if ((at == name || !isalpha((unsigned char)at[-1])) &&
                strncasecmp(at, word[i], strlen(word[i])) == 0)
                split = (lk_split)i;
    return split;
}

/* The files of a folder, and which of them tell a set. */
struct folder {
    const char **name; /* in the arena */
    int64_t n;
    const char *of[LK_N_SPLITS + 1]; /* one of each set, and one of none; NULL: there is none */
};

static lk_status folder_list(const char *path, const char *suffix, lk_arena *arena,
                             struct folder *out)
{
    const char **name;
    int64_t n;
    char file[LK_PATH_SIZE];
    *out = (struct folder){.n = 0};
    LK_TRY(lk__storage_list(path, "", arena, &name, &n));
    out->name = name;
    for (int64_t i = 0; i < n; i++) {
        if (name[i][0] == '.' || !lk__files_has_suffix(name[i], suffix))
            continue;
        LK_TRY(lk__path_join(path, name[i], file, sizeof file));
        if (lk__path_is_folder(file))
            continue;
        out->of[split_of(name[i])] = name[i];
        out->name[out->n++] = name[i];
    }
    const char *kept = out->of[LK_TEST] ? out->of[LK_TEST] : out->of[LK_VALIDATION];
    LK_CHECK(!kept || !out->of[LK_N_SPLITS], LK_EIO,
             "%s: by its name %s is not for training, and %s may be for anything; name the files, "
             "as by a pattern",
             path, kept, out->of[LK_N_SPLITS]);
    return LK_OK;
}

/* Whether it has files of several sets. */
static bool is_split(const struct folder *folder)
{
    int sets = 0;
    for (int i = 0; i < LK_N_SPLITS; i++)
        sets += folder->of[i] != NULL;
    return sets > 1;
}

lk_status lk__files_has_split(const char *path, const char *suffix, lk_split split, lk_arena *arena,
                              bool *out)
{
    struct folder folder;
    *out = false;
    if (!lk__path_is_folder(path))
        return LK_OK;
    LK_TRY(folder_list(path, suffix, arena, &folder));
    *out = is_split(&folder) && folder.of[split];
    return LK_OK;
}

/* The files from `first` on are sorted, match `pattern`, and fit together. */
static lk_status check_files(const struct finding *f, int64_t first, const char *pattern)
{
    LK_TRY(check_twice(f, first));
    return LK_TRACE(check_numbers(f, first, pattern));
}

static lk_status find_folder(struct finding *f, const char *path)
{
    struct folder folder;
    int64_t first = f->n;
    char file[LK_PATH_SIZE];
    LK_TRY(folder_list(path, f->suffix, f->arena, &folder));
    LK_CHECK(folder.n > 0, LK_EIO, "%s: no file in this folder has a name that ends in %s", path,
             f->suffix);
    for (int64_t i = 0; i < folder.n; i++) {
        if (is_split(&folder) && split_of(folder.name[i]) != f->split)
            continue;
        LK_TRY(lk__path_join(path, folder.name[i], file, sizeof file));
        LK_TRY(add(f, file));
    }
    LK_CHECK(f->n > first, LK_EIO,
             "%s: by their names its files are for other sets, none for %s; name the files", path,
             lk_split_name(f->split));
    LK_TRY(lk__path_join(path, "*", file, sizeof file));
    return LK_TRACE(check_files(f, first, file));
}

static lk_status add_found(struct finding *f, const char *pattern, const glob_t *found)
{
    int64_t first = f->n;
    for (size_t i = 0; i < found->gl_pathc; i++)
        if (!lk__path_ends(found->gl_pathv[i], ".part") && !lk__path_is_folder(found->gl_pathv[i]))
            LK_TRY(add(f, found->gl_pathv[i]));
    LK_CHECK(f->n > first, LK_EIO,
             "%s: there is no such file or folder; it is a file, a folder, a pattern such as "
             "train-*%s, or several with commas between them",
             pattern, f->suffix);
    qsort(f->path + first, (size_t)(f->n - first), sizeof *f->path, by_bytes);
    return LK_TRACE(check_files(f, first, pattern));
}

/* What glob() stops at: a folder that is not there has no files. */
static int is_unreadable(const char *path, int error)
{
    (void)path;
    return error != ENOENT && error != ENOTDIR;
}

static lk_status find_pattern(struct finding *f, const char *pattern)
{
    glob_t found = {0};
    int code = glob(pattern, GLOB_NOSORT, is_unreadable, &found);
    lk_status st = LK_OK;
    if (code == GLOB_NOSPACE)
        st = LK_RAISE(LK_ENOMEM, "%s: no memory for the names of its files", pattern);
    else if (code == GLOB_ABORTED)
        st = LK_RAISE(LK_EIO, "%s: a folder on the way cannot be looked into", pattern);
    else
        st = add_found(f, pattern, &found);
    globfree(&found);
    return st;
}

static lk_status find_one(struct finding *f, const char *text)
{
    if (lk__path_is_folder(text))
        LK_TRY(find_folder(f, text));
    else if (lk__path_exists(text))
        LK_TRY(add(f, text));
    else
        LK_TRY(find_pattern(f, text));
    return LK_OK;
}

static lk_status find_all(struct finding *f, const char *text)
{
    if (lk__path_exists(text) || !strchr(text, ',')) {
        return LK_TRACE(find_one(f, text));
    }
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        const char *item;
        LK_CHECK(n > 0, LK_EINVAL, "%s: nothing stands between two commas, or at an end", text);
        LK_TRY(lk_arena_text(f->arena, at, n, &item));
        LK_TRY(find_one(f, item));
        at += n;
        if (!*at)
            return LK_OK;
    }
}

lk_status lk__files_find(const char *text, const char *suffix, lk_split split, lk_arena *arena,
                         lk__files *out)
{
    struct finding f = {.suffix = suffix, .split = split, .arena = arena};
    lk_status st = find_all(&f, text);
    *out = (lk__files){.n = f.n};
    if (st == LK_OK)
        st = lk_arena_alloc(arena, &out->path, f.n, sizeof *out->path);
    if (st == LK_OK)
        memcpy(out->path, f.path, (size_t)f.n * sizeof *out->path);
    lk_free(f.path);
    return LK_TRACE(st);
}
