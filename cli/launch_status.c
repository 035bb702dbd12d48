/* See launch_status.h. */
#include "launch_status.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char variable[] = "LK_STATUS";

#define FILE_NAME "lockstep-status"

int launch_status_open(void)
{
    return memfd_create(FILE_NAME, MFD_CLOEXEC);
}

void launch_status_name(int parent, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", parent, fd);
    if (fd >= 0)
        setenv(variable, path, 1);
    else
        unsetenv(variable);
}

/* On another host the same path may be anybody's. */
static int is_ours(const char *path)
{
    static const char want[] = "/memfd:" FILE_NAME;
    char is[64] = "";
    return readlink(path, is, sizeof is - 1) > 0 && strncmp(is, want, sizeof want - 1) == 0;
}

void launch_status_say(int status)
{
    const char *path = getenv(variable);
    unsigned char byte = (unsigned char)status;
    if (!path || status == 0 || !is_ours(path))
        return;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, &byte, 1) != 1)
        fputs("warning: the launcher is not told the status\n", stderr);
    close(fd);
}

int launch_status_take(int fd)
{
    unsigned char byte = 0;
    if (fd < 0)
        return 0;
    int status = pread(fd, &byte, 1, 0) == 1 ? byte : 0;
    close(fd);
    return status;
}
