/* lk_mesh: where a rank is along each axis, and its communicators.  The trainer makes one on each rank;
 * `lockstep plan` makes some without communicators.
 *
 *     rank = ((stage * data + d) * space + s) * features + f
 *
 * Neighbours along features talk most, in every layer, and stages least, so the first are next to each
 * other.  If a communicator's ranks are not in the order of their nodes, they are numbered anew, so
 * that the ranks of a node stay together; a mesh of one axis keeps its numbers, for all are neighbours
 * there.
 */
#include "coll/agree.h"

#include <lockstep/extra/alloc.h>
#include <lockstep/parallel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

enum { MOST = 1 << 30 };

static const char forms[] =
    "1, dataN, AxB, AxBxC, spatialN, featuresN, stagesN, joined by dots as in "
    "data2.2x2.features2";

/* Read N at *at, and go behind it. */
static bool number_read(const char **at, int64_t *out)
{
    char *end = NULL;
    if (**at < '1' || **at > '9')
        return false;
    *out = strtoll(*at, &end, 10);
    *at = end;
    return *out <= MOST;
}

/* One part of a word, to its end; false: it is none. */
static bool part_read(const char *at, int64_t value[3], int *n, lk_axis *axis)
{
    static const struct {
        const char *name;
        lk_axis axis;
    } names[] = {{"data", LK_AXIS_DATA},
                 {"spatial", LK_AXIS_SPACE},
                 {"features", LK_AXIS_FEATURES},
                 {"stages", LK_AXIS_STAGES}};
    *n = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i].name);
        if (strncmp(at, names[i].name, length) != 0)
            continue;
        at += length;
        *axis = names[i].axis;
        return number_read(&at, value) && !*at;
    }
    *axis = LK_AXIS_SPACE;
    if (!number_read(&at, value))
        return false;
    while (*at == 'x' && *n < 3) {
        at++;
        if (!number_read(&at, &value[(*n)++]))
            return false;
    }
    return !*at && *n > 1;
}

static lk_status part_take(const char *word, const char *part, unsigned *seen, lk_mesh_shape *out)
{
    int64_t value[3] = {0};
    lk_axis axis = LK_AXIS_DATA;
    int n = 0;
    bool read = part_read(part, value, &n, &axis);
    LK_CHECK(read || !*part || part[strspn(part, "0123456789")], LK_EINVAL,
             "layout \"%s\": \"%s\" does not say of what: spatial%s cuts each sample, data%s the "
             "batch",
             word, part, part, part);
    LK_CHECK(read, LK_EINVAL, "layout \"%s\": \"%s\" is none of %s", word, part, forms);
    LK_CHECK(!(*seen & 1U << axis), LK_EINVAL, "layout \"%s\": \"%s\" is the second of its kind",
             word, part);
    *seen |= 1U << axis;
    if (axis == LK_AXIS_SPACE) {
        out->ndim = n;
        memcpy(out->space, value, sizeof out->space);
    } else if (axis == LK_AXIS_DATA) {
        out->data = value[0];
    } else if (axis == LK_AXIS_FEATURES) {
        out->features = value[0];
    } else {
        out->stages = value[0];
    }
    return LK_OK;
}

lk_status lk_mesh_shape_read(const char *word, lk_mesh_shape *out)
{
    char text[LK_MESH_WORD], *part = text;
    unsigned seen = 0;
    LK_CHECK(word && out, LK_EINVAL, "%s is NULL", word ? "out" : "word");
    *out = (lk_mesh_shape){.data = 1, .features = 1, .stages = 1};
    if (strcmp(word, "1") == 0)
        return LK_OK;
    LK_CHECK(strlen(word) < sizeof text, LK_EINVAL, "layout \"%.40s...\" is too long", word);
    memcpy(text, word, strlen(word) + 1);
    while (part) {
        char *dot = strchr(part, '.');
        if (dot)
            *dot++ = '\0';
        LK_TRY(part_take(word, part, &seen, out));
        part = dot;
    }
    return LK_OK;
}

/* Append a part, behind a dot unless it is the first. */
static void part_add(char out[LK_MESH_WORD], const char *name, int64_t value)
{
    size_t n = strlen(out);
    snprintf(out + n, LK_MESH_WORD - n, "%s%s%lld", n > 0 ? "." : "", name, (long long)value);
}

const char *lk_mesh_shape_text(const lk_mesh_shape *shape, char out[LK_MESH_WORD])
{
    out[0] = '\0';
    if (shape->data > 1)
        part_add(out, "data", shape->data);
    if (shape->ndim == 1 && shape->space[0] > 1)
        part_add(out, "spatial", shape->space[0]);
    for (int i = 0; shape->ndim > 1 && i < shape->ndim; i++) {
        size_t n = strlen(out);
        if (i == 0)
            part_add(out, "", shape->space[0]);
        else
            snprintf(out + n, LK_MESH_WORD - n, "x%lld", (long long)shape->space[i]);
    }
    if (shape->features > 1)
        part_add(out, "features", shape->features);
    if (shape->stages > 1)
        part_add(out, "stages", shape->stages);
    if (!out[0])
        snprintf(out, LK_MESH_WORD, "1");
    return out;
}

/* ---- numbers along the axes ---- */

static int64_t at_least_one(int64_t n)
{
    return n > 1 ? n : 1;
}

/* a * b, or a number that no communicator has. */
static int64_t times(int64_t a, int64_t b)
{
    return a > MOST / b ? MOST : a * b;
}

/* How many there are along each axis, of `size` ranks; out->space is the grid of one line of space. */
static lk_status mesh_count(const lk_mesh_shape *shape, int size, lk_mesh *out)
{
    int64_t space = 1, features = at_least_one(shape->features),
            stages = at_least_one(shape->stages), data = shape->data;
    char grid[48] = "1";
    LK_CHECK(shape->ndim >= 0 && shape->ndim <= 3, LK_EINVAL, "a spatial grid of %d axes",
             shape->ndim);
    out->space.ndim = shape->ndim;
    for (int i = 0, at = 0; i < shape->ndim; i++) {
        int64_t n = at_least_one(shape->space[i]);
        space = times(space, n);
        out->space.dim[i] = (int)(n < MOST ? n : MOST);
        at += snprintf(grid + at, sizeof grid - (size_t)at, "%s%lld", i ? "x" : "", (long long)n);
    }
    int64_t others = times(times(space, features), stages);
    if (data <= 0)
        data = size / others > 0 ? size / others : 1;
    LK_CHECK(
        times(data, others) == size, LK_EINVAL,
        "data %lld x spatial %s x features %lld x stages %lld need %lld ranks, but there %s %d",
        (long long)data, grid, (long long)features, (long long)stages,
        (long long)times(data, others), size == 1 ? "is" : "are", size);
    out->n[LK_AXIS_DATA] = (int)data;
    out->n[LK_AXIS_SPACE] = (int)space;
    out->n[LK_AXIS_FEATURES] = (int)features;
    out->n[LK_AXIS_STAGES] = (int)stages;
    return LK_OK;
}

/* From the farthest axis to the nearest. */
static const lk_axis order[LK_N_AXES] = {LK_AXIS_STAGES, LK_AXIS_DATA, LK_AXIS_SPACE,
                                         LK_AXIS_FEATURES};

static void mesh_place(lk_mesh *m, int rank)
{
    for (int i = LK_N_AXES - 1; i >= 0; i--) {
        m->at[order[i]] = rank % m->n[order[i]];
        rank /= m->n[order[i]];
    }
    int s = m->at[LK_AXIS_SPACE];
    for (int i = m->space.ndim - 1; i >= 0; i--) {
        m->space.at[i] = s % m->space.dim[i];
        s /= m->space.dim[i];
    }
}

lk_status lk_mesh_at(const lk_mesh_shape *shape, int size, int rank, lk_mesh *out)
{
    LK_CHECK(shape && out, LK_EINVAL, "%s is NULL", shape ? "out" : "shape");
    LK_CHECK(size >= 1, LK_EINVAL, "a mesh of %d ranks", size);
    LK_CHECK(rank >= 0 && rank < size, LK_EINVAL,
             "there is no rank %d among %d: they are numbered from 0 to %d", rank, size, size - 1);
    *out = (lk_mesh){.world = NULL};
    LK_TRY(mesh_count(shape, size, out));
    mesh_place(out, rank);
    return LK_OK;
}

void lk_mesh_tiles(const lk_mesh *m, const int64_t tiles[3], lk_range out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = i < m->space.ndim
                     ? lk_range_split(at_least_one(tiles[i]), m->space.at[i], m->space.dim[i])
                     : (lk_range){0, at_least_one(tiles[i])};
}

/* ---- communicators ---- */

static int axes_used(const lk_mesh *m)
{
    int n = 0;
    for (int a = 0; a < LK_N_AXES; a++)
        n += m->n[a] > 1;
    return n;
}

/* The ranks that are where this one is along all axes but those of `keep`, a set of bits; the world
 * itself if these are all that are used. */
static lk_status line_make(lk_mesh *m, unsigned keep, lk_comm **out)
{
    int color = 0, key = 0;
    bool all = true;
    for (int i = 0; i < LK_N_AXES; i++) {
        lk_axis a = order[i];
        if (keep & 1U << a) {
            key = key * m->n[a] + m->at[a];
        } else {
            color = color * m->n[a] + m->at[a];
            all = all && m->n[a] == 1;
        }
    }
    *out = m->world;
    if (!all)
        LK_TRY(lk_comm_split(m->world, color, key, out));
    return LK_OK;
}

static lk_status mesh_open(lk_mesh *m, lk_comm *comm)
{
    if (axes_used(m) <= 1) {
        LK_TRY(lk_comm_dup(comm, &m->world));
    } else {
        int key = lk_comm_node(comm) * lk_comm_size(comm) + lk_comm_node_rank(comm);
        LK_TRY(lk_comm_split(comm, 0, key, &m->world));
    }
    mesh_place(m, lk_comm_rank(m->world));
    for (int a = 0; a < LK_N_AXES; a++)
        if (m->n[a] > 1)
            LK_TRY(line_make(m, 1U << a, &m->along[a]));
    if (m->n[LK_AXIS_DATA] == 1 || m->n[LK_AXIS_SPACE] == 1)
        m->replicas = m->along[m->n[LK_AXIS_DATA] > 1 ? LK_AXIS_DATA : LK_AXIS_SPACE];
    else
        LK_TRY(line_make(m, 1U << LK_AXIS_DATA | 1U << LK_AXIS_SPACE, &m->replicas));
    for (int d = 0; m->along[LK_AXIS_SPACE] && d < m->space.ndim; d++) {
        bool keep[LK_MAX_GRID] = {false};
        keep[d] = true;
        if (m->space.dim[d] > 1)
            LK_TRY(lk_grid_split(m->along[LK_AXIS_SPACE], &m->space, keep, &m->space_along[d]));
    }
    return LK_OK;
}

lk_status lk_mesh_new(lk_comm *comm, const lk_mesh_shape *shape, lk_mesh **out)
{
    lk_mesh *m = NULL;
    int size = comm ? lk_comm_size(comm) : 1;
    LK_CHECK(shape && out, LK_EINVAL, "%s is NULL", shape ? "out" : "shape");
    *out = NULL;
    LK_TRY(lk__agree_alloc(comm, &m, sizeof *m));
    lk_status st = lk_agree(comm, mesh_count(shape, size, m));
    if (st == LK_OK && size > 1)
        st = mesh_open(m, comm);
    if (st != LK_OK) {
        lk_mesh_free(m);
        LK_TRY(st);
    }
    *out = m;
    return LK_OK;
}

void lk_mesh_free(lk_mesh *m)
{
    if (!m)
        return;
    if (m->replicas != m->world && m->replicas != m->along[LK_AXIS_DATA] &&
        m->replicas != m->along[LK_AXIS_SPACE])
        lk_comm_close(m->replicas);
    for (int d = 0; d < 3; d++)
        lk_comm_close(m->space_along[d]);
    for (int a = 0; a < LK_N_AXES; a++)
        if (m->along[a] != m->world)
            lk_comm_close(m->along[a]);
    lk_comm_close(m->world);
    lk_free(m);
}
