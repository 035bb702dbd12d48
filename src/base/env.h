/* What the environment says.  A process with more rights than who started it (set-user-ID, file
 * capabilities) hears nothing: what code to load, which files to read and how to compute is not its
 * caller's to say.  So every room asks here, and nobody calls getenv(). */
#ifndef LK_BASE_ENV_H
#define LK_BASE_ENV_H

/** The value of a variable; NULL if it is not set, or is none of this process's. */
const char *lk__env(const char *name);

#endif /* LK_BASE_ENV_H */
