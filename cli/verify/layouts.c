/* Layouts as assignments: a word becomes parallel.data=2 parallel.spatial=2x2 and so on, behind what is
 * given on the command line, so that processes can be told the same.
 */
#include "verify/layouts.h"

#include "experiment.h"
#include "report.h"
#include "term.h"
#include "verb.h"

#include <lockstep/comm.h>
#include <lockstep/extra/alloc.h>

#include <stdarg.h>
#include <string.h>

#define COMMAND "lockstep verify"

enum { USUAL_RANKS = 4 };

/* ---- versions ---- */

static void LK_PRINTF(2, 3) assign(verify_version *v, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(v->more[v->n_more++], VERIFY_ASSIGNMENT, fmt, args);
    va_end(args);
}

static lk_status version_open(int n, char **operand, verify_version *v)
{
    LK_TRY(lk_alloc(&v->operand, n + v->n_more, sizeof *v->operand));
    for (v->n = 0; v->n < n; v->n++)
        v->operand[v->n] = operand[v->n];
    for (int i = 0; i < v->n_more; i++)
        v->operand[v->n++] = v->more[i];
    return LK_TRACE(lk_experiment_read(v->operand[0], (const char *const *)(v->operand + 1),
                                       v->n - 1, &v->experiment));
}

void verify_version_free(verify_version *v)
{
    lk_experiment_free(v->experiment);
    lk_free(v->operand);
    *v = (verify_version){.n = 0};
}

static int failed(lk_status st)
{
    return st == LK_ENOMEM ? verb_failed() : verb_refuse("%s", lk_error_message());
}

int verify_version_read(int n, char **operand, verify_version *out)
{
    *out = (verify_version){.n = 0};
    assign(out, "parallel.data=0"); /* as many as there are ranks */
    lk_status st = version_open(n, operand, out);
    return st == LK_OK ? LK_EXIT_DONE : failed(st);
}

/* The experiment without a layout of its own.  `*cut` says that it has a spatial one, which its pieces
 * may not even allow. */
static int plain_read(int n, char **operand, verify_version *out, bool *cut)
{
    lk_status st = LK_OK;
    *cut = false;
    for (int with = 0; with < 2; with++) {
        *out = (verify_version){.n = 0};
        assign(out, "parallel.data=0");
        assign(out, "parallel.features=1");
        assign(out, "parallel.stages=1");
        if (with)
            assign(out, "parallel.spatial=1");
        st = version_open(n, operand, out);
        if (st == LK_OK && !with)
            *cut = out->experiment->parallel.spatial.n > 0;
        if (st == LK_OK || with)
            break;
        *cut = true;
        verify_version_free(out);
        lk_error_clear();
    }
    return st == LK_OK ? LK_EXIT_DONE : failed(st);
}

/* ---- pieces ---- */

/* The coarsest that allow all layouts, where the experiment has none: in `out`, of as many axes as the
 * longest grid; what it has is 1 there. */
static int coarsest(const verify_layouts *l, const lk_pieces *has, lk_pieces *out)
{
    int ndim = 0;
    *out = (lk_pieces){.tile = {1, 1, 1}, .blocks = 1};
    bool tiles = has->tile[0] > 1 || has->tile[1] > 1 || has->tile[2] > 1;
    for (int k = 0; k < l->n; k++) {
        const lk_mesh_shape *s = &l->item[k].shape;
        for (int i = 0; i < s->ndim && !tiles; i++)
            if (s->space[i] > out->tile[i])
                out->tile[i] = s->space[i];
        ndim = s->ndim > ndim ? s->ndim : ndim;
        if (has->blocks <= 1 && s->features > out->blocks)
            out->blocks = s->features;
    }
    return out->tile[0] * out->tile[1] * out->tile[2] > 1 ? ndim : 0;
}

/* Assign them to all layouts, and say so. */
static void pieces_assign(verify_layouts *l, const lk_pieces *cut, int ndim)
{
    char grid[LAYOUT_GRID], blocks[48] = "";
    layout_grid_text(ndim, cut->tile, grid);
    for (int k = 0; k < 2 * l->n; k++) {
        verify_version *v = &l->item[k / 2].version[k % 2];
        if (ndim > 0)
            assign(v, "pieces.tiles=%s", grid);
        if (cut->blocks > 1)
            assign(v, "pieces.blocks=%lld", (long long)cut->blocks);
    }
    if (cut->blocks > 1)
        snprintf(blocks, sizeof blocks, "blocks: %lld", (long long)cut->blocks);
    if (ndim > 0)
        snprintf(l->pieces, sizeof l->pieces, "{tiles: %s%s%s}", grid, *blocks ? ", " : "", blocks);
    else if (*blocks)
        snprintf(l->pieces, sizeof l->pieces, "{%s}", blocks);
}

/* ---- layouts ---- */

/* Shards of a batch on so many ranks. */
static int64_t shards_of(const lk_experiment *e, int64_t ranks)
{
    lk_loader_options loader = e->loader;
    if (e->parallel.mode == LK_REDUCTION_FAST) /* the ranks are the shards */
        loader.shards = ranks;
    return lk_loader_options_shards(&loader);
}

/* Each replica needs a piece of the batch: known before the first layout is trained. */
static int shards_check(const verify_layout *l, bool named)
{
    const lk_experiment *e = l->version[0].experiment;
    int64_t parts = l->shape.data, pieces = shards_of(e, l->ranks);
    if (parts <= pieces)
        return LK_EXIT_DONE;
    int64_t batch = e->loader.batch > parts ? e->loader.batch : parts;
    if (e->parallel.mode == LK_REDUCTION_FAST)
        batch = (batch + l->ranks - 1) / l->ranks * l->ranks;
    long long samples = (long long)batch, shards = (long long)lk_shards_for(batch, parts);
    int64_t most = pieces * (l->ranks / parts);
    long long ranks = (long long)most;
    if (named)
        return verb_refuse(COMMAND ": option --layouts: %s: %lld parts of the data for a batch of "
                                   "%lld shard%s: give at most data%lld, or data.batch=%lld "
                                   "data.shards=%lld",
                           l->word, (long long)parts, (long long)pieces, plural(pieces),
                           (long long)pieces, samples, shards);
    return verb_refuse(COMMAND ": option --ranks: %d ranks for a batch of %lld shard%s: give at "
                               "most %lld rank%s, or data.batch=%lld data.shards=%lld",
                       l->ranks, (long long)pieces, plural(pieces), ranks, plural(ranks), samples,
                       shards);
}

static void shape_assign(verify_version *v, const lk_mesh_shape *s, bool whole)
{
    char grid[LAYOUT_GRID];
    assign(v, "parallel.data=%lld", (long long)s->data);
    if (s->ndim > 0 || whole)
        assign(v, "parallel.spatial=%s", layout_grid_text(s->ndim, s->space, grid));
    assign(v, "parallel.features=%lld", (long long)s->features);
    assign(v, "parallel.stages=%lld", (long long)s->stages);
}

/* Open both versions of a layout whose shape is known. */
static int layout_open(verify_layout *l, bool named, int n, char **operand)
{
    assign(&l->version[1], "parallel.update=each");
    for (int k = 0; k < 2; k++) {
        lk_status st = version_open(n, operand, &l->version[k]);
        if (st == LK_ENOMEM)
            return verb_failed();
        if (st != LK_OK)
            return verb_refuse(COMMAND ": layout %s: %s", l->word, lk_error_message());
    }
    return shards_check(l, named);
}

static int layouts_open(verify_layouts *l, bool named, int n, char **operand)
{
    int status = LK_EXIT_DONE;
    for (int i = 0; i < l->n && status == LK_EXIT_DONE; i++)
        status = layout_open(&l->item[i], named, n, operand);
    return status;
}

static int word_read(const char *word, bool cut, verify_layout *l)
{
    if (lk_mesh_shape_read(word, &l->shape) != LK_OK)
        return verb_refuse(COMMAND ": option --layouts: %s", lk_error_message());
    int64_t ranks = layout_ranks(&l->shape);
    if (ranks > LK_MAX_LOCAL)
        return verb_refuse(COMMAND ": option --layouts: %s has more than %d ranks, which is the "
                                   "most that can be started",
                           word, LK_MAX_LOCAL);
    l->ranks = (int)ranks;
    lk_mesh_shape_text(&l->shape, l->word);
    for (int k = 0; k < 2; k++)
        shape_assign(&l->version[k], &l->shape, cut);
    return LK_EXIT_DONE;
}

/* Take the word that the list begins with; `*list` is then behind its comma, NULL behind the last. */
static int word_take(const char **list, bool cut, verify_layouts *out)
{
    char word[LK_MESH_WORD];
    size_t n = strcspn(*list, ",");
    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word), *list);
    verify_layout *l = &out->item[out->n++];
    if (n >= sizeof word)
        return verb_refuse(COMMAND ": option --layouts: \"%.40s...\" is too long", word);
    *list = (*list)[n] ? *list + n + 1 : NULL;
    int status = word_read(word, cut, l);
    for (int i = 0; i < out->n - 1 && status == LK_EXIT_DONE; i++)
        if (strcmp(out->item[i].word, l->word) == 0)
            status = verb_refuse(COMMAND ": option --layouts: %s is in the list twice", l->word);
    return status;
}

int verify_layouts_read(const char *words, int n, char **operand, verify_layouts *out)
{
    verify_version plain;
    lk_pieces pieces;
    int64_t count = 1;
    bool cut = false;
    for (const char *c = words; *c; c++)
        count += *c == ',';
    *out = (verify_layouts){.n = 0};
    int status = plain_read(n, operand, &plain, &cut);
    if (status == LK_EXIT_DONE && lk_alloc_zero(&out->item, count, sizeof *out->item) != LK_OK)
        status = verb_failed();
    while (words && status == LK_EXIT_DONE)
        status = word_take(&words, cut, out);
    if (status == LK_EXIT_DONE) {
        int ndim = coarsest(out, &plain.experiment->pieces.cut, &pieces);
        pieces_assign(out, &pieces, ndim);
        status = layouts_open(out, true, n, operand);
    }
    verify_version_free(&plain);
    return status;
}

/* The experiment's own layout on so many ranks. */
static int ranks_read(const lk_experiment *e, int64_t ranks, verify_layout *l)
{
    lk_mesh mesh;
    l->shape = layout_of(e);
    l->ranks = (int)ranks;
    if (lk_mesh_at(&l->shape, l->ranks, 0, &mesh) != LK_OK)
        return verb_refuse(COMMAND ": option --ranks: %s", lk_error_message());
    l->shape.data = mesh.n[LK_AXIS_DATA];
    lk_mesh_shape_text(&l->shape, l->word);
    for (int k = 0; k < 2; k++)
        shape_assign(&l->version[k], &l->shape, false);
    return LK_EXIT_DONE;
}

/* Those of the usual numbers of ranks that the experiment's own layout and its shards allow. */
static int usual_ranks(const lk_experiment *e, lk_option_ints *out)
{
    lk_mesh mesh;
    const lk_mesh_shape shape = layout_of(e);
    *out = (lk_option_ints){.n = 0};
    for (int ranks = 1; ranks <= USUAL_RANKS; ranks++)
        if (lk_mesh_at(&shape, ranks, 0, &mesh) == LK_OK &&
            mesh.n[LK_AXIS_DATA] <= shards_of(e, ranks))
            out->item[out->n++] = ranks;
    lk_error_clear();
    if (out->n == 0)
        return verb_refuse(COMMAND ": the layout of the experiment needs more ranks than the %d "
                                   "that are taken without --ranks: give --ranks or --layouts",
                           USUAL_RANKS);
    return LK_EXIT_DONE;
}

int verify_layouts_of_ranks(const lk_option_ints *given_ranks, int n, char **operand,
                            verify_layouts *out)
{
    verify_version given;
    lk_option_ints usual;
    const lk_option_ints *ranks = given_ranks->n > 0 ? given_ranks : &usual;
    *out = (verify_layouts){.n = 0};
    int status = verify_version_read(n, operand, &given);
    if (status == LK_EXIT_DONE && ranks == &usual)
        status = usual_ranks(given.experiment, &usual);
    if (status == LK_EXIT_DONE)
        out->n = ranks->n;
    if (status == LK_EXIT_DONE && lk_alloc_zero(&out->item, out->n, sizeof *out->item) != LK_OK)
        status = verb_failed();
    for (int i = 0; i < out->n && status == LK_EXIT_DONE; i++)
        status = ranks_read(given.experiment, ranks->item[i], &out->item[i]);
    if (status == LK_EXIT_DONE)
        status = layouts_open(out, false, n, operand);
    verify_version_free(&given);
    return status;
}

void verify_layouts_measure(const verify_layouts *l, report *out)
{
    int width = 0;
    for (int i = 0; i < l->n; i++)
        width = (int)strlen(l->item[i].word) > width ? (int)strlen(l->item[i].word) : width;
    for (int i = 0; i < out->n; i++)
        if (strcmp(out->column[i].key, "layout") == 0 && width > -out->column[i].width)
            out->column[i].width = -width;
}

void verify_layouts_free(verify_layouts *l)
{
    for (int i = 0; i < l->n && l->item; i++)
        for (int k = 0; k < 2; k++)
            verify_version_free(&l->item[i].version[k]);
    lk_free(l->item);
    *l = (verify_layouts){.n = 0};
}
