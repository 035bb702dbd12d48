/* What a job and the command that started it tell each other past MPI's launcher.
 *
 * Up goes the job's status: MPICH's launcher forgets it at times, when ranks got a signal.  Down goes
 * a request to stop: launchers lose signals, or hang, while they start their ranks; a note is found
 * by a rank however late it is.
 *
 * The note is a memfd of the command, which tells ranks where it is in LK_NOTE: a path of /proc, that
 * leads nowhere on other hosts.  There the launcher's word counts, and the signals that it passes on.
 */
#ifndef LK_CLI_LAUNCH_NOTE_H
#define LK_CLI_LAUNCH_NOTE_H

#include <stdbool.h>

/** In the command: the file of a note, -1: there is none. */
int launch_note_open(void);

/** In the child, before it becomes the launcher: name the file `fd` of process `parent`. */
void launch_note_name(int parent, int fd);

/** In the command: ask the ranks to stop. */
void launch_note_ask(int fd);

/** In the command: whether a rank looks at what it is asked. */
bool launch_note_is_read(int fd);

/** In the command: close the file; the status that a rank left, 0: none did. */
int launch_note_take(int fd);

/** In a rank, before it has other threads: begin to look at the note, if there is one. */
void launch_note_read(void);

/** In a rank that does: whether it was asked to stop. */
bool launch_note_asks(void);

/** In a rank, at its end: leave a status other than 0 there. */
void launch_note_say(int status);

#endif /* LK_CLI_LAUNCH_NOTE_H */
