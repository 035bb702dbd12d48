/* Pairs of a name and a value, checked and written as a JSON object: lk_kvs_json() for programs, and kv.h for
 * JSON lines and reports.
 */
#include "io/kv.h"

#include <lockstep/extra/alloc.h>

#include <string.h>

lk_status lk__kvs_check(const lk_kv *kv, int64_t n)
{
    LK_CHECK(kv || n == 0, LK_EINVAL, "kv is NULL");
    for (int64_t i = 0; i < n; i++) {
        bool text = kv[i].type == LK_KV_TEXT || kv[i].type == LK_KV_JSON;
        LK_CHECK(kv[i].name && (kv[i].text || !text), LK_EINVAL, "kv %lld or its name is NULL",
                 (long long)i);
        LK_CHECK(kv[i].type != LK_KV_JSON || !strchr(kv[i].text, '\n'), LK_EINVAL,
                 "the JSON of \"%s\" has more than one line", kv[i].name);
    }
    return LK_OK;
}

void lk__kvs_put(lk__out *o, const lk_kv *kv, int64_t n)
{
    lk__out_put(o, "{");
    for (int64_t i = 0; i < n; i++) {
        lk__out_put(o, i ? ", " : "");
        lk__out_json(o, kv[i].name);
        lk__out_put(o, ": ");
        switch (kv[i].type) {
        case LK_KV_REAL: lk__out_real(o, kv[i].real); break;
        case LK_KV_INT: lk__out_format(o, "%lld", (long long)kv[i].integer); break;
        case LK_KV_TEXT: lk__out_json(o, kv[i].text); break;
        case LK_KV_JSON: lk__out_put(o, kv[i].text); break;
        }
    }
    lk__out_put(o, "}");
}

lk_status lk_kvs_json(const lk_kv *kv, int64_t n, lk_arena *arena, const char **out)
{
    lk__out o = {0};
    *out = NULL;
    LK_TRY(lk__kvs_check(kv, n));
    lk__kvs_put(&o, kv, n);
    lk_status st = o.st;
    if (st == LK_OK)
        st = lk_arena_text(arena, o.text, (size_t)o.n, out);
    lk_free(o.text);
    return LK_TRACE(st);
}
