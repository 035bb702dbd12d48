/* lk__json: a reader of JSON for files of others, such as safetensors and manifests: in one pass,
 * strictly, without building a tree.  The caller has it on its stack.
 *
 *     LK_TRY(lk__json_open(&j, '{'));
 *     for (;;) {
 *         LK_TRY(lk__json_more(&j, '}', &more));
 *         if (!more)
 *             break;
 *         LK_TRY(lk__json_key(&j, arena, &key));
 *         LK_TRY(lk__json_int(&j, &value));
 *     }
 *     LK_TRY(lk__json_end(&j));
 *
 * Errors are LK_EIO and name the file and the offset.  What is read takes no more memory than a few
 * times the input, so the caller limits that.
 */
#ifndef LK_BASE_JSON_H
#define LK_BASE_JSON_H

#include <lockstep/option.h>

#include <stdint.h>

/** Where a reader is. */
typedef struct lk__json {
    const char *name; /* of the file, for messages */
    const char *text;
    int64_t n, at;
    int64_t base; /* offset of `text` in the file, for messages */
    bool first;   /* no item of the innermost list has been read */
} lk__json;

/** Enter a list: '[' or '{'. */
lk_status lk__json_open(lk__json *j, char bracket) LK_NODISCARD;

/** Whether the list has another item (its comma is read then); at its end, the bracket is. */
lk_status lk__json_more(lk__json *j, char bracket, bool *more) LK_NODISCARD;

/** A text, unescaped, in the arena: UTF-8 without zero bytes. */
lk_status lk__json_text(lk__json *j, lk_arena *arena, const char **out) LK_NODISCARD;

/** A text and the ':' behind it. */
lk_status lk__json_key(lk__json *j, lk_arena *arena, const char **out) LK_NODISCARD;

/** A whole number from 0 on, below 2^63. */
lk_status lk__json_int(lk__json *j, int64_t *out) LK_NODISCARD;

/** Nothing but white space to the end. */
lk_status lk__json_end(lk__json *j) LK_NODISCARD;

/** Fail at the place of the reader. */
lk_status lk__json_refuse(const lk__json *j, const char *why) LK_NODISCARD;

/** `text` as JSON, with its quotes, in `buf` of `size` bytes; what does not fit is cut before a
 * character, and bytes that are no UTF-8 become U+FFFD.  Returns the length.  A size of 6 bytes for
 * each of the text and 3 more is enough. */
size_t lk__json_quote(const char *text, char *buf, size_t size);

#endif /* LK_BASE_JSON_H */
