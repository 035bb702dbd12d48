/* A temporary folder of the command, with its files removed at the end: see scratch.h. */
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static lk_status folder_make(const char *parent, const char *name, char *folder)
{
    const char *temporary = secure_getenv("TMPDIR");
    if (!parent)
        parent = temporary && temporary[0] ? temporary : "/tmp";
    int n = snprintf(folder, SCRATCH_PATH, "%s/lockstep-%s-XXXXXX", parent, name);
    LK_CHECK(n > 0 && n < SCRATCH_PATH, LK_EINVAL, "the path %s is too long", parent);
    LK_CHECK(mkdtemp(folder), LK_EIO, "%s: no folder can be made there: %s", parent,
             strerror(errno));
    return LK_OK;
}

lk_status scratch_make(const char *parent, const char *name, char folder[SCRATCH_PATH])
{
    lk_status st = folder_make(parent, name, folder);
    if (st != LK_OK)
        folder[0] = '\0';
    return LK_TRACE(st);
}

void scratch_remove(const char *folder)
{
    DIR *open = *folder ? opendir(folder) : NULL;
    for (const struct dirent *e; open && (e = readdir(open));)
        if (e->d_name[0] != '.')
            (void)unlinkat(dirfd(open), e->d_name, 0);
    if (!open)
        return;
    closedir(open);
    (void)rmdir(folder);
}
