/* The children of a process, of each of its threads, as /proc shows them. */
#include "launch_deaf.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* The name of a program is in parentheses, and may hold any. */
static bool is_dead(int pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *end = strrchr(text, ')');
    return end && (end[1] == ' ') && (end[2] == 'Z' || end[2] == 'X');
}

/* Count the children of a thread, and those that have ended. */
static void children_count(pid_t process, const char *thread, int *all, int *dead)
{
    char path[512];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)process, thread);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1) {
        ++*all;
        *dead += is_dead(child);
    }
    if (file)
        fclose(file);
}

bool launch_is_deaf(pid_t launcher)
{
    char path[64];
    int all = 0, dead = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)launcher);
    DIR *threads = opendir(path);
    if (!threads)
        return false;
    for (const struct dirent *d; (d = readdir(threads));)
        if (d->d_name[0] != '.')
            children_count(launcher, d->d_name, &all, &dead);
    closedir(threads);
    return all > 0 && all == dead;
}
