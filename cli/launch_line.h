/* How a launcher is called: its command line, and what is set for it and its ranks. */
#ifndef LK_CLI_LAUNCH_LINE_H
#define LK_CLI_LAUNCH_LINE_H

#include "launch_home.h"
#include "launch_spec.h"

enum { LAUNCH_SETTINGS = 16 };

typedef struct launch_line {
    const char **argv; /* NULL-terminated */
    int n_settings;
    struct {
        const char *name, *value; /* of a variable of the environment */
    } setting[LAUNCH_SETTINGS];
    bool here; /* all ranks are on this host */
    char number[16], self[PATH_MAX];
} launch_line;

/** Whether all ranks are on this host: no batch system and no list of hosts is in the environment. */
bool launch_is_here(void);

/**
 * The line that starts a job, which keeps its files in the folders of `home`; both must stay as long as
 * the line.  False if it cannot be made.  launch_line_free() in any case.
 */
bool launch_line_make(const job_spec *spec, const launch_home *home, launch_line *out);
void launch_line_free(launch_line *line);

/** Print the settings, one a line, and the command line, as a shell would read them. */
void launch_line_print(const launch_line *line);

/** Replace this process by the launcher.  Returns only if it fails. */
void launch_line_exec(const launch_line *line);

#endif /* LK_CLI_LAUNCH_LINE_H */
