/* Attributes of the public interface: visibility, linkage and compiler hints. */
#ifndef LK_API_H
#define LK_API_H

#ifdef __cplusplus
#    define LK_BEGIN_DECLS extern "C" {
#    define LK_END_DECLS }
#else
#    define LK_BEGIN_DECLS
#    define LK_END_DECLS
#endif

/* The library is built with hidden visibility; LK_API marks what it exports. */
#define LK_API __attribute__((visibility("default")))
#define LK_NODISCARD __attribute__((warn_unused_result))
#define LK_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define LK_COLD __attribute__((cold)) /* what leads to a call of it is seldom, and lies apart */

#endif /* LK_API_H */
