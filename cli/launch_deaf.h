/* Launchers that do not notice the end of their ranks: Open MPI's hangs if one is killed while it starts,
 * with all ranks dead and nobody told. */
#ifndef LK_CLI_LAUNCH_DEAF_H
#define LK_CLI_LAUNCH_DEAF_H

#include <stdbool.h>
#include <sys/types.h>

/** Whether process `launcher` has children, of which it has not yet taken note that all have ended. */
bool launch_is_deaf(pid_t launcher);

#endif /* LK_CLI_LAUNCH_DEAF_H */
