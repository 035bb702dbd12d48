/* launch_line: the command line of a launcher, and the variables that are set for it and its ranks.
 * wait.c makes one for a job before it forks. */
#ifndef LK_CLI_LAUNCH_LINE_H
#define LK_CLI_LAUNCH_LINE_H

#include "launch/home.h"
#include "launch/spec.h"

#include <lockstep/option.h>

#include <stdio.h>

typedef struct launch_line {
    lk_arena *arena;   /* of all below */
    const char **argv; /* NULL-terminated */
    int n_settings, n_words;
    struct {
        const char *name, *value; /* of a variable of the environment */
    } * setting;
    bool here;               /* all ranks are on this host */
    bool lacks_memory;       /* it is not complete */
    char rankfile[PATH_MAX]; /* that is to be written; "": none */
} launch_line;

/** Whether all ranks are on this host: no place (NULL), batch system or list of hosts in the environment
 * says otherwise. */
bool launch_is_here(const launch_place *place);

/**
 * The line that starts a job, which keeps its files in the folders of `home`; both must stay as long as
 * the line.  False if it cannot be made.  launch_line_free() in any case.
 */
bool launch_line_make(const job_spec *spec, const launch_folders *folders, launch_line *out);
void launch_line_free(launch_line *line);

/** Print the settings, one a line, the rank file, and the command line, as a shell would read them. */
void launch_line_print(const launch_line *line, const rankfile *ranks, FILE *to);

/** Write the rank file, if it has one; false with errno. */
bool launch_line_write(const launch_line *line, const rankfile *ranks);

/** Replace this process by the launcher.  Returns only if it fails. */
void launch_line_exec(const launch_line *line);

/** Set "NAME=VALUE" lines in this process, for ranks that are threads of it.  False without memory. */
bool launch_variables_set(const char *variables);

/** Print a word so that a shell reads it as one, quoted where it must be. */
void shell_word_print(const char *word, FILE *to);

#endif /* LK_CLI_LAUNCH_LINE_H */
