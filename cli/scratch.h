/* A temporary folder that is removed when the command ends: for the files that bench, gradcheck and
 * verify write and read again. */
#ifndef LK_CLI_SCRATCH_H
#define LK_CLI_SCRATCH_H

#include <lockstep/status.h>

enum { SCRATCH_PATH = 4096 };

/** Make the folder lockstep-NAME-XXXXXX below `parent`, NULL: TMPDIR or /tmp.  Errors: LK_EIO, LK_EINVAL for a
 * path that is too long; `folder` is then "". */
lk_status scratch_make(const char *parent, const char *name,
                       char folder[SCRATCH_PATH]) LK_NODISCARD;

/** Remove it with its files; "" is allowed. */
void scratch_remove(const char *folder);

#endif /* LK_CLI_SCRATCH_H */
