/* Paths in the file system: whether something exists, joining names, the folder above.  Each writes
 * into a buffer of the caller's, of LK_PATH_SIZE bytes. */
#ifndef LK_BASE_PATH_H
#define LK_BASE_PATH_H

#include <lockstep/status.h>

#include <stdbool.h>
#include <stddef.h>

enum { LK_PATH_SIZE = 4096 };

/** Whether there is such a file or folder. */
bool lk__path_exists(const char *path);
bool lk__path_is_folder(const char *path);

/** Whether it is a symbolic link. */
bool lk__path_is_link(const char *path);

/** Whether `path` ends in `suffix`. */
bool lk__path_ends(const char *path, const char *suffix);

/** `folder`/`file` in `buf` of `size` bytes.  Errors: LK_EINVAL if it does not fit. */
lk_status lk__path_join(const char *folder, const char *file, char *buf, size_t size) LK_NODISCARD;

/** The folder that `path` lies in, "." of a bare name.  Errors: LK_EINVAL if it does not fit. */
lk_status lk__path_parent(const char *path, char buf[LK_PATH_SIZE]) LK_NODISCARD;

#endif /* LK_BASE_PATH_H */
