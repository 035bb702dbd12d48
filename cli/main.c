/* The command: finds the verb, runs it, and notices when its output could not be written. */
#include "launch/mailbox.h"
#include "ranks.h"
#include "report.h"
#include "verb.h"

#include <lockstep/log.h>
#include <lockstep/thread.h>
#include <lockstep/version.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void print_help(FILE *to)
{
    fprintf(to, "usage: lockstep VERB [options] [operands]\n\n");
    option_wrap(to, 0,
                "Trains networks and differentiates programs, across MPI ranks too, with kernels "
                "and ops that "
                "give the same bits with any number of ranks and threads and any instruction set.");
    fprintf(to, "\nverbs:\n");
    for (int i = 0; lk__verbs[i]; i++)
        fprintf(to, "  %-12s %s\n", lk__verbs[i]->name, lk__verbs[i]->summary);
    fprintf(to,
            "\n"
            "  lockstep VERB --help    what a verb does, and its options\n"
            "  lockstep help NAME      what a layer, optimizer, op, ... does, and its options\n"
            "  lockstep --version      the version, the numerics epoch and the hash format\n"
            "\n"
            "exit status: 0 done, 1 failed, 2 wrong usage, 75 stopped on request, to be resumed\n");
}

/* The verb that the arguments name; NULL: what they ask for was printed, and *status is the exit status. */
static const lk__verb *verb_of(int argc, char **argv, int *status)
{
    const char *first = argc > 0 ? argv[0] : "";
    *status = argc > 0 ? LK_EXIT_DONE : LK_EXIT_USAGE;
    if (strcmp(first, "--version") == 0) {
        printf("lockstep %s (numerics epoch %d, hash format %d)\n", lk_version(),
               lk_numerics_epoch(), lk_hash_format());
        return NULL;
    }
    if (argc == 0 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 ||
        (strcmp(first, "help") == 0 && argc == 1)) {
        print_help(argc > 0 ? stdout : stderr);
        return NULL;
    }
    *status = LK_EXIT_USAGE;
    return verb_find(lk__verbs, "lockstep", "verb", first);
}

/* Give closed standard streams a file that refuses every access; otherwise the next file opened
 * would take the place of one, and what is printed would go there. */
static void guard_streams(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            return;
}

/* Messages of the library. */
static void print_message(void *context, lk_log_level level, const char *line)
{
    (void)context;
    fprintf(stderr, "%s: %s\n", level == LK_LOG_WARN ? "warning" : lk_log_level_name(level), line);
}

int main(int argc, char **argv)
{
    guard_streams();
    /* A closed pipe then shows as a failed write, see report_flush(). */
    signal(SIGPIPE, SIG_IGN);
    lk_log_set_sink(print_message, NULL);
    launch_mailbox_arrive(ranks_given());
    int status;
    char command[64];
    const lk__verb *verb = verb_of(argc - 1, argv + 1, &status);
    if (verb) {
        snprintf(command, sizeof command, "lockstep %s", verb->name);
        status = verb_run(verb, command, argc - 2, argv + 2);
    }
    lk_threads_stop();
    int error = report_flush();
    if (error != 0) {
        fprintf(stderr, "error: cannot write to standard output: %s\n", strerror(error));
        if (status == LK_EXIT_DONE)
            status = LK_EXIT_FAILED;
    }
    launch_mailbox_post_status(status);
    return status;
}
