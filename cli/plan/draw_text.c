/* What the picture of a layer says in words, and the colours of ranks. */
#include "plan/draw.h"
#include "plan/show.h"

enum { COLOURS = 8 };

const char *plan_where(const lk_box *box, char out[PLAN_WHERE])
{
    static const char *const name[] = {"positions", "rows", "columns", "planes", "rows", "columns"};
    const char *const *axis = box->ndim == 1 ? name : box->ndim == 2 ? name + 1 : name + 3;
    size_t n = 0;
    out[0] = 0;
    for (int d = 0; d < box->ndim && d < 3; d++) {
        const char *comma = d > 0 ? ", " : "";
        long long first = (long long)box->first[d], last = first + (long long)box->n[d] - 1;
        if (last > first)
            n += (size_t)snprintf(out + n, PLAN_WHERE - n, "%s%s %lld-%lld", comma, axis[d], first,
                                  last);
        else if (last == first)
            n += (size_t)snprintf(out + n, PLAN_WHERE - n, "%s%s %lld", comma, axis[d], first);
        else
            n += (size_t)snprintf(out + n, PLAN_WHERE - n, "%sno %s", comma, axis[d]);
    }
    return out;
}

/* The number among those that this rank fetches from for the layer: it decides the colour. */
static int colour_of(const plan_view *v, int rank)
{
    int before = 0;
    for (int r = 0; r < rank; r++) {
        bool gives = false;
        for (int k = 0; k < 2; k++) {
            int64_t bytes;
            int from;
            lk_box box;
            const lk_fetch *fetch = plan_fetch(v->layer, k, &bytes);
            for (int i = 0; fetch && !gives && lk_fetch_part(fetch, i, &from, &box); i++)
                gives = from == r;
        }
        before += gives;
    }
    return before % COLOURS;
}

void plan_fetched_text(const plan_view *v, int rank, const lk_box *box, int64_t bytes,
                       char out[PLAN_LINE], char kind[16])
{
    char where[PLAN_WHERE];
    snprintf(out, PLAN_LINE, "from rank %d: %s: %lld bytes", plan_rank(v->plan, rank),
             plan_where(box, where), (long long)(bytes * lk_box_count(box)));
    snprintf(kind, 16, "from c%d", colour_of(v, rank));
}
