/* The mailbox between a job and the command that started it: a few bytes for the job, and after them a
 * few for each rank.  See mailbox.h.
 */
#include "launch/mailbox.h"

#include "ranks.h"
#include "verb.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STATUS, ASKED, READ, RANKS = 16 }; /* where they are */

struct rank {
    unsigned char stage;
    pid_t process;
};

static const char variable[] = "LK_NOTE";

#define FILE_NAME "lockstep-note"

static int mailbox = -1, place = -1; /* in a rank: the mailbox, and which rank it is */

static int get(int fd, int at)
{
    unsigned char byte = 0;
    return fd >= 0 && pread(fd, &byte, 1, at) == 1 ? byte : 0;
}

static bool put(int fd, int at, int value)
{
    unsigned char byte = (unsigned char)value;
    return fd >= 0 && pwrite(fd, &byte, 1, at) == 1;
}

static off_t rank_at(int rank)
{
    return RANKS + (off_t)sizeof(struct rank) * rank;
}

/* ---- in the command ---- */

int launch_mailbox_open(void)
{
    return memfd_create(FILE_NAME, MFD_CLOEXEC);
}

void launch_mailbox_name(int parent, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", parent, fd);
    setenv(variable, path, 1);
}

void launch_mailbox_request_stop(int fd)
{
    (void)put(fd, ASKED, 1); /* signals follow where no rank reads it */
}

bool launch_mailbox_is_read(int fd)
{
    return get(fd, READ) != 0;
}

launch_stage launch_mailbox_stage(int fd, int rank, pid_t *process)
{
    struct rank r = {.stage = LAUNCH_UNSEEN};
    if (fd < 0 || pread(fd, &r, sizeof r, rank_at(rank)) != (ssize_t)sizeof r)
        r = (struct rank){.stage = LAUNCH_UNSEEN};
    *process = r.process;
    return r.stage;
}

int launch_mailbox_status(int fd)
{
    return get(fd, STATUS);
}

void launch_mailbox_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* ---- in a rank ---- */

/* On another host the same path may be anybody's. */
static bool is_ours(const char *path)
{
    static const char want[] = "/memfd:" FILE_NAME;
    char is[64] = "";
    return readlink(path, is, sizeof is - 1) > 0 && strncmp(is, want, sizeof want - 1) == 0;
}

static bool stage_put(launch_stage stage)
{
    struct rank r;
    memset(&r, 0, sizeof r);
    r.stage = (unsigned char)stage;
    r.process = getpid();
    return place < 0 || pwrite(mailbox, &r, sizeof r, rank_at(place)) == (ssize_t)sizeof r;
}

void launch_mailbox_arrive(int rank)
{
    const char *path = secure_getenv(variable);
    mailbox = path && is_ours(path) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    place = rank < RANKS_MAX_PROCESSES ? rank : -1;
    if (mailbox >= 0)
        (void)stage_put(LAUNCH_ARRIVED);
}

bool launch_mailbox_is_there(void)
{
    return mailbox >= 0;
}

void launch_mailbox_read(void)
{
    (void)put(mailbox, READ, 1);
}

bool launch_mailbox_stop_requested(void)
{
    return get(mailbox, ASKED) != 0;
}

void launch_mailbox_connected(void)
{
    if (mailbox >= 0)
        (void)stage_put(LAUNCH_CONNECTED);
}

/* Of several statuses the first failure counts: the others come of it. */
void launch_mailbox_post_status(int status)
{
    if (mailbox < 0)
        return;
    int before = launch_mailbox_status(mailbox);
    bool first = before == LK_EXIT_DONE || before == LK_EXIT_REQUEUE;
    bool posted = status == LK_EXIT_DONE || !first || put(mailbox, STATUS, status);
    if (!stage_put(LAUNCH_DONE) || !posted)
        fputs("warning: the launcher is not told the status\n", stderr);
}
