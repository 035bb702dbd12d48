/* Folders of jobs, and records of them.
 *
 *     $XDG_RUNTIME_DIR/lockstep/job-XXXXXX/record      or /tmp/lockstep-UID/job-XXXXXX/record
 *
 * A record has one fact a line: the start of the system and the name space of processes, in which the
 * numbers below mean something; processes, each with its own start; the folder of shared memory, and
 * files that MPICH has outside of it, each as the file that it was when it was seen.  The user's folder
 * is locked while records come and go.
 */
#include "launch/home.h"

#include "launch/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { FACT = 128 };

/* ---- the user's folder ---- */

static bool is_own(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && (st->st_mode & 077) == 0;
}

static void base_name(char out[PATH_MAX])
{
    const char *run = secure_getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (run && run[0] == '/' && strlen(run) < PATH_MAX / 2 && stat(run, &st) == 0 && is_own(&st))
        snprintf(out, PATH_MAX, "%s/lockstep", run);
    else
        snprintf(out, PATH_MAX, "/tmp/lockstep-%u", (unsigned)geteuid());
}

/* Open and lock it; -1: there is none, or it stays locked. */
static int base_open(const char *name)
{
    struct stat st;
    (void)mkdir(name, 0700);
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !is_own(&st)) {
        fprintf(stderr,
                "warning: %s is not a folder of this user alone: what a killed job leaves "
                "behind is not removed\n",
                name);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (errno != EWOULDBLOCK || tries == 100) {
            close(fd);
            return -1;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return fd;
}

/* ---- records ---- */

/* The start of the system, and the name space of processes: what their numbers belong to. */
static void frame_read(char boot[FACT], char names[FACT])
{
    boot[0] = names[0] = '\0';
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fscanf(file, "%127s", boot) != 1)
        boot[0] = '\0';
    if (file)
        fclose(file);
    ssize_t n = readlink("/proc/self/ns/pid", names, FACT - 1);
    names[n > 0 ? n : 0] = '\0';
}

static void record_path(const char *folder, char out[PATH_MAX])
{
    if (snprintf(out, PATH_MAX, "%s/record", folder) >= PATH_MAX)
        out[0] = '\0';
}

bool launch_folders_file(const launch_folders *h, const char *name, char out[PATH_MAX])
{
    return h->files[0] && snprintf(out, PATH_MAX, "%s/%s", h->files, name) < PATH_MAX;
}

static FILE *record_append(const launch_folders *h)
{
    char path[PATH_MAX];
    record_path(h->files, path);
    return h->files[0] ? fopen(path, "ae") : NULL;
}

static void process_write(FILE *to, pid_t pid)
{
    process p;
    if (to && process_read(pid, &p))
        fprintf(to, "process %d %llu\n", (int)p.pid, p.start);
}

void launch_folders_add(const launch_folders *h, pid_t pid)
{
    FILE *file = record_append(h);
    process_write(file, pid);
    if (file)
        fclose(file);
}

static void one_add(const process *p, void *arg)
{
    process_write(arg, p->pid);
}

void launch_folders_add_tree(const launch_folders *h, pid_t launcher)
{
    FILE *file = record_append(h);
    if (!file)
        return;
    tree_visit(launcher, one_add, file);
    fclose(file);
}

size_t launch_folders_segments(pid_t pid, char *out, size_t size)
{
    char line[512], path[FACT];
    unsigned major, minor;
    unsigned long long inode;
    size_t n = 0;
    out[0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*s %*s %*s %x:%x %llu /dev/shm/%99s", &major, &minor, &inode, path) !=
                4 ||
            strstr(line, "(deleted)") || strchr(path, '/') || size - n < sizeof line)
            continue;
        n += (size_t)snprintf(out + n, size - n, "segment /dev/shm/%s %llu %llu\n", path,
                              (unsigned long long)makedev(major, minor), inode);
    }
    if (file)
        fclose(file);
    return n;
}

void launch_folders_add_segments(const launch_folders *h, const char *lines)
{
    FILE *file = record_append(h);
    if (!file)
        return;
    fputs(lines, file);
    fclose(file);
}

/* What a record says. */
struct record {
    bool empty; /* its command was killed before it had anything to leave behind */
    bool known; /* its numbers mean something here */
    bool alive; /* a process of it is */
};

/* A file of a job. */
struct trace {
    char path[FACT];
    unsigned long long device, inode;
};

/* A folder or a segment in a line; false if it is about something else. */
static bool trace_read(const char *line, struct trace *t)
{
    return sscanf(line, "%*[a-z] %127s %llu %llu", t->path, &t->device, &t->inode) == 3 &&
           t->path[0] == '/';
}

static void line_read(const char *line, struct record *r)
{
    char boot[FACT], names[FACT], its_boot[FACT], its_names[FACT];
    int pid;
    unsigned long long start;
    process p;
    if (sscanf(line, "frame %127s %127s", its_boot, its_names) == 2) {
        frame_read(boot, names);
        r->known = strcmp(boot, its_boot) == 0 && strcmp(names, its_names) == 0;
    } else if (sscanf(line, "process %d %llu", &pid, &start) == 2) {
        r->alive = r->alive || (process_read(pid, &p) && p.start == start && p.state != 'Z');
    }
}

/* False if there is none. */
static bool record_read(const char *folder, struct record *r)
{
    char path[PATH_MAX], line[512];
    *r = (struct record){.empty = true};
    record_path(folder, path);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        r->empty = false;
        line_read(line, r);
    }
    if (file)
        fclose(file);
    return file != NULL;
}

/* ---- removal ---- */

static int one_remove(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    (void)!remove(path);
    return 0;
}

static void folder_remove(const char *path)
{
    enum { FILES = 16 };
    (void)nftw(path, one_remove, FILES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Remove a file or folder, if it is still the one that was seen. */
static void trace_remove(const struct trace *t)
{
    struct stat st;
    if (lstat(t->path, &st) != 0 || st.st_uid != geteuid() ||
        (unsigned long long)st.st_dev != t->device || (unsigned long long)st.st_ino != t->inode)
        return;
    if (S_ISDIR(st.st_mode))
        folder_remove(t->path);
    else if (S_ISREG(st.st_mode))
        (void)!unlink(t->path);
}

/* Remove all that the record in this folder names, and the folder. */
static void job_remove(const char *folder)
{
    char path[PATH_MAX], line[512];
    struct trace t;
    record_path(folder, path);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (trace_read(line, &t))
            trace_remove(&t);
    if (file)
        fclose(file);
    folder_remove(folder);
}

/* Remove the folders of jobs all of whose processes are gone; one without a record is empty, or stays. */
static void base_sweep(const char *base)
{
    DIR *all = opendir(base);
    for (const struct dirent *d; all && (d = readdir(all));) {
        char path[PATH_MAX];
        struct record r;
        if (d->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", base, d->d_name) >= (int)sizeof path)
            continue;
        if (!record_read(path, &r)) {
            (void)!rmdir(path);
        } else if (r.empty || (r.known && !r.alive)) {
            job_remove(path);
        }
    }
    if (all)
        closedir(all);
}

/* ---- folders ---- */

static const char memory_name[] = "/dev/shm/lockstep-XXXXXX";

void launch_folders_name(launch_folders *out)
{
    char base[PATH_MAX];
    base_name(base);
    if (snprintf(out->files, sizeof out->files, "%s/job-XXXXXX", base) >= (int)sizeof out->files)
        out->files[0] = '\0';
    snprintf(out->memory, sizeof out->memory, "%s", memory_name);
}

/* With the record of this process, before there is anything to leave behind. */
static void folders_make(launch_folders *h)
{
    char boot[FACT], names[FACT];
    struct stat st;
    if (!h->files[0] || !mkdtemp(h->files)) {
        h->files[0] = h->memory[0] = '\0';
        return;
    }
    FILE *file = record_append(h);
    frame_read(boot, names);
    if (file)
        fprintf(file, "frame %s %s\n", boot, names);
    process_write(file, getpid());
    if (!file || fflush(file) != 0 || !mkdtemp(h->memory) || lstat(h->memory, &st) != 0)
        h->memory[0] = '\0';
    else
        fprintf(file, "memory %s %llu %llu\n", h->memory, (unsigned long long)st.st_dev,
                (unsigned long long)st.st_ino);
    if (file)
        fclose(file);
}

void launch_folders_make(launch_folders *out)
{
    char base[PATH_MAX];
    base_name(base);
    int fd = base_open(base);
    *out = (launch_folders){.files = ""};
    if (fd < 0)
        return;
    base_sweep(base);
    launch_folders_name(out);
    folders_make(out);
    close(fd);
}

void launch_folders_remove(launch_folders *h)
{
    if (h->files[0])
        job_remove(h->files);
    *h = (launch_folders){.files = ""};
}
