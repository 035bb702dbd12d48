/* lk__env(): the one way to read a variable of the environment; any thread.  A process with more
 * rights than its caller (set-user-ID, file capabilities) sees none: what code to load, which files
 * to read and how to compute is then not for the caller to say.  So no room calls getenv() itself.
 */
#ifndef LK_BASE_ENV_H
#define LK_BASE_ENV_H

/** The value of a variable; NULL if it is not set, or is none of this process's. */
const char *lk__env(const char *name);

#endif /* LK_BASE_ENV_H */
