/* Send a signal to a command that has just been started:
 *
 *     signal_after MICROSECONDS SIGNAL COMMAND...
 *
 * Ends with the command's status, 128 + N if signal N killed it, 99 if it had ended by itself before
 * the signal was sent.  Other than a shell's, the command starts with no signal ignored.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int number_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].number;
    return 0;
}

int main(int argc, char **argv)
{
    int sig = argc > 3 ? number_of(argv[2]) : 0;
    if (sig == 0) {
        fputs("usage: signal_after MICROSECONDS INT|TERM|USR1|USR2 COMMAND...\n", stderr);
        return 98;
    }
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        execv(argv[3], argv + 3);
        perror(argv[3]);
        _exit(98);
    }
    long us = strtol(argv[1], NULL, 10);
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid)
        return 99;
    kill(pid, sig);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
