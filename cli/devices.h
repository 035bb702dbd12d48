/* The list of devices that a process has: `lockstep topo --devices`. */
#ifndef LK_CLI_DEVICES_H
#define LK_CLI_DEVICES_H

#include <stdbool.h>

/** Print it, as a table or in JSON; returns the exit status, after a message that begins with `command`
 * where there is no list. */
int devices_print(const char *command, bool json);

#endif /* LK_CLI_DEVICES_H */
