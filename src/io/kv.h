/* Arrays of lk_kv, a name with a value, as the caller has them: checked, and written as a JSON object.  JSON
 * lines and reports call it, on the thread of their caller.
 */
#ifndef LK_IO_KV_H
#define LK_IO_KV_H

#include "io/out.h"

#include <lockstep/io.h>

/** Whether all is there, and JSON has one line.  Errors: LK_EINVAL. */
lk_status lk__kvs_check(const lk_kv *kv, int64_t n) LK_NODISCARD;

/** Append pairs, which were checked, as a JSON object. */
void lk__kvs_put(lk__out *o, const lk_kv *kv, int64_t n);

#endif /* LK_IO_KV_H */
