/* Tags: whether nodes on split features go together.
 *
 * A value is replicated, varying or partial along features.  Its gradient must be replicated, varying and
 * replicated: a partial value is joined, and a join hands its gradient on as it is.  A partial gradient is
 * for nodes that join it alone.  Two gradients of one value are added, which needs equal tags, and of
 * partial ones would be another tree on each number of ranks.
 *
 * A plan calls lk_feature_tags_check() when it is made, on any thread; nothing is communicated.
 */
#include <lockstep/extra/alloc.h>
#include <lockstep/extra/suggest.h>
#include <lockstep/features.h>

#include <string.h>

#define NONE LK_FEATURE_TAG_NONE
#define R LK_FEATURE_TAG_REPLICATED
#define V LK_FEATURE_TAG_VARYING
#define P LK_FEATURE_TAG_PARTIAL
#define SAME LK_FEATURE_TAG_SAME

/* kind, inputs; x taken and dy taken; y given and dx given; what travels forward, backward */
const lk_feature_rule lk_feature_rules[] = {
    /* from one to the other */
    {"copy", 1, R, P, R, R, "", "allreduce"},
    {"gather", 1, V, R, R, V, "allgather", ""},
    {"gather_sum", 1, V, P, R, V, "allgather", "reduce_scatter"},
    {"take", 1, R, V, V, R, "", "allgather"},
    {"join", 1, P, R, R, R, "allreduce", ""},
    /* layers that are cut; "partial" is LK_FEATURE_PARTIAL */
    {"linear", 1, R, V, V, R, "", "allreduce"},
    {"linear_scattered", 1, V, V, V, V, "allgather", "reduce_scatter"},
    {"linear_partial", 1, R, V, V, P, "", ""},
    {"linear_in", 1, V, R, R, V, "allreduce", ""},
    {"linear_in_partial", 1, V, R, P, V, "", ""},
    {"conv", 1, R, V, V, R, "", "allreduce"},
    {"conv_partial", 1, R, V, V, P, "", ""},
    {"conv_groups", 1, V, V, V, V, "", ""},
    {"recurrent", 1, R, V, V, R, "an allgather a time", "a reduce_scatter a time, allreduce"},
    {"recurrent_scattered", 1, V, V, V, V, "allgather, and one a time",
     "a reduce_scatter a time, and one"},
    {"recurrent_partial", 1, R, V, V, P, "an allgather a time", "a reduce_scatter a time"},
    {"embedding_units", 1, R, V, V, NONE, "", ""},
    {"embedding_rows", 1, R, R, R, NONE, "allreduce", ""},
    {"cross_entropy", 1, V, R, R, V, "three allreduces of a number a row", ""},
    /* each feature for itself, on what a rank has; their parameters are cut as x is */
    {"element_wise", 1, R | V, R | V, SAME, SAME, "", ""},
    {"bias", 1, R | V, R | V, SAME, SAME, "", ""},
    {"dropout", 1, R | V, R | V, SAME, SAME, "", ""},
    {"pool", 1, R | V, R | V, SAME, SAME, "", ""},
    {"batch_norm", 1, R | V, R | V, SAME, SAME, "", ""},
    {"add", 2, R | V, R | V, SAME, SAME, "", ""},
    /* all features together, alike on all ranks; their parameters are replicated */
    {"whole", 1, R, R, R, R, "", ""},
    {NULL, 0, 0, 0, NONE, NONE, NULL, NULL}};

const char *lk_feature_tag_name(lk_feature_tag tag)
{
    switch (tag) {
    case LK_FEATURE_TAG_NONE: return "none";
    case LK_FEATURE_TAG_REPLICATED: return "replicated";
    case LK_FEATURE_TAG_VARYING: return "varying";
    case LK_FEATURE_TAG_PARTIAL: return "partial";
    default: return "?";
    }
}

/* Tags that a node takes, for messages. */
static const char *taken_text(unsigned tags)
{
    return tags == (R | V) ? "replicated or varying" : lk_feature_tag_name((lk_feature_tag)tags);
}

lk_status lk_feature_rule_find(const char *kind, const lk_feature_rule **out)
{
    lk_suggestion s = {.wanted = kind};
    LK_CHECK(kind && out, LK_EINVAL, "%s is NULL", kind ? "out" : "kind");
    for (*out = lk_feature_rules; (*out)->kind; ++*out) {
        if (strcmp((*out)->kind, kind) == 0)
            return LK_OK;
        lk_suggest_consider(&s, (*out)->kind);
    }
    *out = NULL;
    if (lk_suggest_found(&s))
        return LK_RAISE(LK_EINVAL, "there is no node of the kind \"%s\"; did you mean \"%s\"?",
                        kind, s.best);
    return LK_RAISE(LK_EINVAL, "there is no node of the kind \"%s\"", kind);
}

/* ---- the check ---- */

/* A value: what comes in, or what a step gives. */
typedef struct tagged {
    const lk_feature_rule *rule; /* NULL: it comes in */
    const char *name, *kind;
    lk_feature_tag tag, gradient;
    const struct tagged *from; /* who has given the gradient */
} tagged;

/* The gradient that a value wants. */
static lk_feature_tag wanted(lk_feature_tag tag)
{
    return tag == LK_FEATURE_TAG_PARTIAL ? LK_FEATURE_TAG_REPLICATED : tag;
}

/* What would make `has` of a value, or of a gradient, what is wanted. */
static const char *missing_text(lk_feature_tag has, unsigned takes, bool back)
{
    if (back && has == LK_FEATURE_TAG_PARTIAL)
        return "a copy or a gather_sum before the layer joins it";
    if (back && takes == P)
        return "there is nothing to join: a gather hands it on, where a sum would count it once "
               "for "
               "each rank";
    if (has == LK_FEATURE_TAG_PARTIAL)
        return "a join comes first";
    if (has == LK_FEATURE_TAG_VARYING && takes & R)
        return "a gather comes first";
    return "they cannot follow each other";
}

/* `value` [0] is what comes in, value[i + 1] that of step i. */
static lk_status step_ahead(tagged *value, const lk_feature_step *step, int64_t i)
{
    tagged *own = &value[i + 1];
    const lk_feature_rule *r = NULL;
    LK_CHECK(step->name && step->kind, LK_EINVAL, "step %lld has no %s", (long long)i,
             step->name ? "kind" : "name");
    LK_TRY(lk_feature_rule_find(step->kind, &r));
    *own = (tagged){.rule = r, .name = step->name, .kind = r->kind};
    for (int k = 0; k < r->n_in; k++) {
        LK_CHECK(step->in[k] >= LK_FEATURE_INPUT && step->in[k] < i, LK_EINVAL,
                 "%s (%s), step %lld, reads step %lld: it can read earlier ones", own->name,
                 own->kind, (long long)i, (long long)step->in[k]);
        const tagged *x = &value[step->in[k] + 1], *first = &value[step->in[0] + 1];
        LK_CHECK(r->x & (unsigned)x->tag, LK_EINVAL,
                 "%s (%s) takes a value that is %s, and that of %s (%s) is %s along features: %s",
                 own->name, own->kind, taken_text(r->x), x->name, x->kind,
                 lk_feature_tag_name(x->tag), missing_text(x->tag, r->x, false));
        LK_CHECK(x->tag == first->tag, LK_EINVAL,
                 "%s (%s) takes two values alike, and that of %s (%s) is %s, that of %s (%s) %s "
                 "along features: a gather comes before one of them",
                 own->name, own->kind, first->name, first->kind, lk_feature_tag_name(first->tag),
                 x->name, x->kind, lk_feature_tag_name(x->tag));
        own->tag = r->y == LK_FEATURE_TAG_SAME ? x->tag : r->y;
    }
    return LK_OK;
}

/* `from` gives a gradient to a value that it has read. */
static lk_status gradient_give(tagged *to, const tagged *from, lk_feature_tag tag)
{
    unsigned takes = to->rule ? to->rule->dy : (unsigned)wanted(to->tag);
    LK_CHECK(
        !to->from || (to->gradient == tag && tag != LK_FEATURE_TAG_PARTIAL), LK_EINVAL,
        "%s (%s) and %s (%s) read %s (%s), and the gradients that they give are %s and %s along "
        "features: only what is alike and not partial is added, so each needs a copy of its "
        "own",
        from->name, from->kind, to->from->name, to->from->kind, to->name, to->kind,
        lk_feature_tag_name(tag), lk_feature_tag_name(to->gradient));
    LK_CHECK(takes & (unsigned)tag, LK_EINVAL,
             "%s (%s) takes a gradient that is %s, and what %s (%s) gives is %s along features: %s",
             to->name, to->kind, taken_text(takes), from->name, from->kind,
             lk_feature_tag_name(tag), missing_text(tag, takes, true));
    LK_CHECK(tag == LK_FEATURE_TAG_PARTIAL || tag == wanted(to->tag), LK_EINVAL,
             "%s (%s) gives a gradient that is %s of the value of %s (%s), which is %s along "
             "features: they do not belong together",
             from->name, from->kind, lk_feature_tag_name(tag), to->name, to->kind,
             lk_feature_tag_name(to->tag));
    to->gradient = tag;
    to->from = from;
    return LK_OK;
}

static lk_status step_back(tagged *value, const lk_feature_step *step, int64_t i)
{
    const tagged *own = &value[i + 1];
    const lk_feature_rule *r = own->rule;
    lk_feature_tag dx = r->dx == LK_FEATURE_TAG_SAME ? own->gradient : r->dx;
    for (int k = 0; k < r->n_in && own->from && dx != LK_FEATURE_TAG_NONE; k++)
        LK_TRY(gradient_give(&value[step->in[k] + 1], own, dx));
    return LK_OK;
}

lk_status lk_feature_tags_check(const lk_feature_step *steps, int64_t n, lk_feature_tag x,
                                lk_feature_tag *y)
{
    lk_status st = LK_OK;
    tagged *value = NULL, loss = {.name = "the result", .kind = "loss"};
    LK_CHECK(n >= 0 && (steps || n == 0), LK_EINVAL, "%lld steps%s", (long long)n,
             n < 0 ? "" : ", which are NULL");
    LK_CHECK(x == LK_FEATURE_TAG_REPLICATED || x == LK_FEATURE_TAG_VARYING, LK_EINVAL,
             "what comes in is number %d: it is replicated or varying", (int)x);
    LK_TRY(lk_alloc(&value, n + 1, sizeof *value));
    value[0] = (tagged){.name = "what comes in", .kind = "input", .tag = x};
    for (int64_t i = 0; i < n; i++)
        LK_TRY_TO(done, step_ahead(value, &steps[i], i));
    tagged *last = &value[n];
    if (last->tag == LK_FEATURE_TAG_PARTIAL)
        LK_TRY_TO(done, LK_RAISE(LK_EINVAL,
                                 "%s (%s) is the last, and its value is partial along features: a "
                                 "join comes behind it",
                                 last->name, last->kind));
    LK_TRY_TO(done, gradient_give(last, &loss, wanted(last->tag)));
    for (int64_t i = n - 1; i >= 0; i--)
        LK_TRY_TO(done, step_back(value, &steps[i], i));
    if (y)
        *y = last->tag;
done:
    lk_free(value);
    return st;
}
