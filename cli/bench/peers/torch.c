/* Talking to a script of bench/ through two pipes. */
#include "bench/peers/torch.h"

#include "bench/peers/peers.h"
#include "verb.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool fail(bench_torch *t, const char *why)
{
    snprintf(t->about, sizeof t->about, "%s", why);
    return false;
}

/* In the child: stdin and stdout are the pipes, and nothing is printed on the terminal. */
static _Noreturn void child(char *const *argv, int in, int out)
{
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(nowhere, STDERR_FILENO) >= 0)
        execv(argv[0], argv);
    _exit(127);
}

static bool spawn(bench_torch *t, char *const *argv)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0)
        return fail(t, "no pipe");
    if (pipe2(from, O_CLOEXEC) != 0) {
        close(to[0]);
        close(to[1]);
        return fail(t, "no pipe");
    }
    t->pid = fork();
    if (t->pid == 0)
        child(argv, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    t->to = fdopen(to[1], "w");
    t->from = fdopen(from[0], "r");
    if (t->pid < 0 || !t->to || !t->from)
        return fail(t, "no process");
    return true;
}

bool torch_start(bench_torch *t, const char *python, const char *name, const char *how, int n)
{
    char script[PEER_PATH], own[PEER_PATH], count[16];
    if (!python)
        python = peer_file("venv/bin/python3", own, sizeof own) ? own : "/usr/bin/python3";
    snprintf(count, sizeof count, "%d", n);
    char *argv[] = {(char *)(uintptr_t)python, script, (char *)(uintptr_t)how, count, NULL};
    *t = (bench_torch){.pid = -1};
    signal(SIGPIPE, SIG_IGN);
    if (!peer_file(name, script, sizeof script))
        return fail(t, "its script is not beside the command");
    if (access(python, X_OK) != 0) {
        snprintf(t->about, sizeof t->about, "there is no Python at %.400s (see --python)", python);
        return false;
    }
    openmp_wait_passively();
    if (!spawn(t, argv)) {
        torch_stop(t);
        return false;
    }
    if (!fgets(t->about, sizeof t->about, t->from)) {
        bool tensorflow = strstr(name, "tensorflow");
        torch_stop(t);
        return fail(t, tensorflow
                           ? "that Python has no module tensorflow"
                           : "that Python has no module torch (\"make bench-peers\" makes one that "
                             "has, so does Debian's package python3-torch)");
    }
    t->about[strcspn(t->about, "\n")] = '\0';
    char *tab = strchr(t->about, '\t');
    if (tab) {
        *tab = '\0';
        bench_path_set(&t->path, "PyTorch", tab + 1);
        bench_path_warn(&t->path);
    }
    return true;
}

int torch_open(bench_torch *t, const char *bench, const lk_option_names *against,
               const char *python, const char *name, int threads, bool *on)
{
    bool named = against->n > 0, none = named && strcmp(against->item[0], "none") == 0;
    *t = (bench_torch){.pid = -1, .about = "not asked for"};
    *on = false;
    if (named && !none && (against->n > 1 || strcmp(against->item[0], "torch") != 0)) {
        fprintf(stderr, "error: lockstep bench %s: option --against: torch or none\n", bench);
        return LK_EXIT_USAGE;
    }
    *on = !none && torch_start(t, python, name, "torch", threads);
    if (named && !none && !*on) {
        fprintf(stderr, "error: lockstep bench %s: PyTorch: %s\n", bench, t->about);
        return LK_EXIT_FAILED;
    }
    return LK_EXIT_DONE;
}

bool torch_sample(bench_torch *t, const char *request, int repeats, double *seconds, double *value)
{
    char line[128], *end;
    if (fprintf(t->to, "%s %d\n", request, repeats) < 0 || fflush(t->to) != 0 ||
        !fgets(line, sizeof line, t->from))
        return fail(t, "it ended before it answered");
    *seconds = strtod(line, &end);
    *value = strtod(end, &end);
    return *end == '\n' && *seconds > 0;
}

void torch_stop(bench_torch *t)
{
    if (t->to)
        fclose(t->to);
    if (t->from)
        fclose(t->from);
    if (t->pid > 0)
        waitpid(t->pid, NULL, 0);
    t->to = t->from = NULL;
    t->pid = -1;
}
