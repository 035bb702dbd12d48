/* lk__label: what a call is, as ranks compare it and reports show it ("allreduce("loss") #7 of
 * f32[10]"): its text, how two differ, and the rolling hash of a rank's calls.  For this room and
 * coll. */
#include "comm/wire.h"

#include <lockstep/hash.h>

#include <stdio.h>
#include <string.h>

const char *lk_comm_call_name(lk_comm_call call)
{
    static const char *const name[] = {
#define X(code, text) [LK_CALL_##code] = text,
        LK_CALL_MAP(X)
#undef X
    };
    return (unsigned)call < LK_N_CALLS ? name[call] : "?";
}

const char *lk_reduce_op_name(lk_reduce_op op)
{
    static const char *const name[] = {
#define X(code, text, formula) [LK_REDUCE_##code] = text,
        LK_REDUCE_OP_MAP(X)
#undef X
    };
    return (unsigned)op < LK_N_REDUCE_OPS ? name[op] : "?";
}

void lk__label_name(lk__label *label, const char *name)
{
    size_t n = name ? strlen(name) : 0;
    if (n > LK_WIRE_NAME) {
        name += n - LK_WIRE_NAME;
        n = LK_WIRE_NAME;
    }
    memset(label->name + n / 8 * 8, 0, 8); /* the end, and zeros up to the next word */
    if (n > 0)
        memcpy(label->name, name, n);
    label->h.text = (uint8_t)n;
}

void lk__label_shape_add(lk__label *label, int ndim, const int64_t *dim)
{
    char shape[1 + LK_MESSAGE_AXES * 9] = {0};
    size_t n = 1, name = label->h.text;
    for (int i = 0; i < ndim && i < LK_MESSAGE_AXES; i++) {
        uint64_t size = (uint64_t)dim[i];
        for (; size > 127; size >>= 7)
            shape[n++] = (char)(size % 128 + 128);
        shape[n++] = (char)size;
    }
    size_t cut = name + n > LK_WIRE_NAME ? name + n - LK_WIRE_NAME : 0;
    memmove(label->name, label->name + cut, name - cut);
    memcpy(label->name + name - cut, shape, n);
    n += name - cut;
    memset(label->name + n, 0, 8 - n % 8);
    label->h.text = (uint8_t)n;
}

bool lk__label_shape(const lk__label *label, int *ndim, int64_t dim[LK_MESSAGE_AXES])
{
    const unsigned char *text = (const unsigned char *)label->name;
    size_t n = label->h.text, at = strnlen(label->name, n);
    *ndim = -1;
    if (at == n)
        return true;
    int axes = 0;
    for (at++; at < n; axes++) {
        uint64_t size = 0;
        int shift = 0;
        do {
            if (at == n || shift == 63 || axes == LK_MESSAGE_AXES)
                return false;
            size |= (uint64_t)(text[at] % 128) << shift;
            shift += 7;
        } while (text[at++] > 127);
        dim[axes] = (int64_t)size;
    }
    *ndim = axes;
    return true;
}

/* Whether a segment that is run again made the call. */
static const char *repeated(const lk__header *h)
{
    bool p2p = h->kind == LK_KIND_P2P;
    return (p2p ? h->past != 0 : h->kind == LK_KIND_COLLECTIVE && h->repeated) ? ", recomputed"
                                                                               : "";
}

const char *lk__label_text(const lk__label *label, char out[LK_CALL_TEXT])
{
    const lk__header *h = &label->h;
    char op[16] = "", root[24] = "", count[32] = ", counts by rank";
    const lk_reduce_op of = (lk_reduce_op)(h->op & ~LK_OP_OF_PAIRS);
    if (of < LK_N_REDUCE_OPS)
        snprintf(op, sizeof op, ", %s", lk_reduce_op_name(of));
    if (h->count >= 0)
        snprintf(count, sizeof count, " x %lld", (long long)h->count);
    if (h->root >= 0)
        snprintf(root, sizeof root, ", %s %d", h->kind == LK_KIND_P2P ? "rank" : "root", h->root);
    if (h->kind == LK_KIND_P2P)
        snprintf(out, LK_CALL_TEXT, "%s(\"%s\", %s%s, tag %lld%s)", lk_comm_call_name(h->call),
                 label->name, lk_dtype_name(h->dtype), count, (long long)h->tag, repeated(h));
    else if (h->call <= LK_CALL_BARRIER || h->call == LK_CALL_SHARE)
        snprintf(out, LK_CALL_TEXT, "%s(\"%s\"%s) #%lld", lk_comm_call_name(h->call), label->name,
                 repeated(h), (long long)h->sequence);
    else
        snprintf(out, LK_CALL_TEXT, "%s(\"%s\", %s%s%s%s%s) #%lld", lk_comm_call_name(h->call),
                 label->name, lk_dtype_name(h->dtype), count, op, root, repeated(h),
                 (long long)h->sequence);
    return out;
}

const char *lk__label_short(const lk__label *label, bool number, char out[LK_CALL_TEXT])
{
    const lk__header *h = &label->h;
    int n = snprintf(out, LK_CALL_TEXT, "%s(\"%s\"%s)", lk_comm_call_name(h->call), label->name,
                     repeated(h));
    if (h->kind == LK_KIND_COLLECTIVE && number)
        snprintf(out + n, LK_CALL_TEXT - (size_t)n, " #%lld", (long long)h->sequence);
    return out;
}

const char *lk__label_brief(const lk__label *label, char out[LK_CALL_TEXT])
{
    const lk__header *h = &label->h;
    char tag[32] = "any tag";
    if (h->kind != LK_KIND_P2P || h->tag >= LK_ADJOINT_TAG_BASE)
        return lk__label_short(label, true, out);
    if (h->tag != LK_ANY_TAG)
        snprintf(tag, sizeof tag, "tag %lld", (long long)h->tag);
    snprintf(out, LK_CALL_TEXT, "%s(\"%s\", %s%s)", lk_comm_call_name(h->call), label->name, tag,
             repeated(h));
    return out;
}

static bool reduces(const lk__header *h)
{
    return h->kind == LK_KIND_COLLECTIVE && (h->op & ~LK_OP_OF_PAIRS) < LK_N_REDUCE_OPS;
}

lk__difference lk__label_difference(const lk__label *a, const lk__label *b)
{
    const lk__header *x = &a->h, *y = &b->h;
    if (reduces(x) && reduces(y) && x->finite != y->finite)
        return LK_DIFFERS_FINITE;
    if (x->call != y->call)
        return LK_DIFFERS_CALL;
    if (x->text != y->text || memcmp(a->name, b->name, x->text) != 0)
        return LK_DIFFERS_NAME;
    /* Before the count, which is that of one part where all are equal, and else of all. */
    return x->dtype != y->dtype                                           ? LK_DIFFERS_DTYPE
           : x->layout != y->layout && x->pieces == y->pieces             ? LK_DIFFERS_LAYOUT
           : x->count != y->count                                         ? LK_DIFFERS_COUNT
           : x->op != y->op                                               ? LK_DIFFERS_OP
           : x->root != y->root                                           ? LK_DIFFERS_ROOT
           : x->repeated != y->repeated                                   ? LK_DIFFERS_REPEATED
           : x->pieces != y->pieces                                       ? LK_DIFFERS_PIECES
           : x->layout != y->layout                                       ? LK_DIFFERS_LAYOUT
           : x->started != y->started                                     ? LK_DIFFERS_STARTED
           : x->unchecked != y->unchecked                                 ? LK_DIFFERS_CHECKS
           : x->algorithm && y->algorithm && x->algorithm != y->algorithm ? LK_DIFFERS_ALGORITHM
           : x->past != y->past                                           ? LK_DIFFERS_PAST
                                                                          : LK_SAME;
}

/* A 64-bit mix (splitmix64's finisher): cheap, and every bit counts. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A polynomial in a random number, whose coefficients are what the call is made of: one multiplication
 * for each word, and the mix at the end spreads it. */
uint64_t lk__label_roll(const lk__label *label)
{
    const uint64_t base = UINT64_C(0x9e3779b97f4a7c15);
    const lk__header *h = &label->h;
    uint64_t x = (uint64_t)h->call | (uint64_t)h->dtype << 8 | (uint64_t)h->op << 16 |
                 (uint64_t)h->text << 24 | (uint64_t)(uint32_t)h->root << 32;
    x ^= (uint64_t)h->algorithm << 56;
    x = x * base + (uint64_t)h->count;
    /* In the parts in which they were stored just now: processors wait if such are loaded as one. */
    x = x * base + (h->pieces | (uint64_t)h->how << 32);
    for (size_t i = 0; i < h->text; i += 8) {
        uint64_t word;
        memcpy(&word, label->name + i, sizeof word); /* zeros behind the name */
        x = x * base + word;
    }
    return mix(x * base + h->past);
}
