/* The disk: what is refused, what is told of each call, and what a thread shows of its own. */
#include "base/storage/fault.h"
#include "data/sink.h"
#include "data_files.h"

#include <errno.h>
#include <pthread.h>

/* The calls of a trace as a text, a line each, with the names of the files. */
typedef struct calls {
    char text[2048];
} calls;

static void log_add(void *arg, const lk__storage_event *e)
{
    calls *l = arg;
    size_t n = strlen(l->text);
    const char *base = strrchr(e->path, '/');
    snprintf(l->text + n, sizeof l->text - n, "%s%s %s\n", lk__storage_name(e->call),
             e->folder ? " folder" : "", base ? base + 1 : e->path);
}

TEST(a_file_has_its_name_when_it_is_on_disk)
{
    calls l = {""};
    lk__sink *sink;
    const char *path = test_path("synced.npy");
    char want[512];
    lk__storage_trace(log_add, &l);
    ASSERT_OK(lk__sink_open(path, &sink));
    ASSERT_OK(lk__sink_write(sink, "bytes", 5));
    ASSERT_OK(lk__sink_close(sink));
    lk__storage_trace(NULL, NULL);
    snprintf(want, sizeof want,
             "open synced.npy.part\nwrite synced.npy.part\nsync synced.npy.part\n"
             "rename synced.npy.part\nsync folder %s\n",
             strrchr(test_folder(), '/') + 1);
    ASSERT_TRUE(strcmp(l.text, want) == 0);
}

TEST(a_folder_is_synced_in_the_one_above_even_if_it_was_there)
{
    calls l = {""};
    char path[256], want[256];
    const char *above = strrchr(test_folder(), '/') + 1;
    snprintf(path, sizeof path, "%s/made", test_folder());
    lk__storage_trace(log_add, &l);
    ASSERT_OK(lk__storage_folder(path));
    ASSERT_OK(lk__storage_folder(path));
    lk__storage_trace(NULL, NULL);
    snprintf(want, sizeof want, "mkdir made\nsync folder %s\nsync folder %s\n", above, above);
    ASSERT_TRUE(strcmp(l.text, want) == 0);
    ASSERT_FAILS(lk__storage_mkdir(path, 0777), LK_EIO, "made: cannot be made: File exists");
    ASSERT_FAILS(lk__storage_folder(test_write("plain", "x", 1)), LK_EIO,
                 "plain: cannot be made: it is a file, where a folder is needed");
}

TEST(parents_of_paths)
{
    static const char *const pair[][2] = {{"a", "."},   {"a/b", "a"},    {"a/b/", "a"},
                                          {"/a", "/"},  {"/", "/"},      {"a//b", "a"},
                                          {"./a", "."}, {"../a/", ".."}, {"/a/b", "/a"}};
    char parent[LK_PATH_SIZE];
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++) {
        ASSERT_OK(lk__path_parent(pair[i][0], parent));
        ASSERT_TRUE(strcmp(parent, pair[i][1]) == 0);
    }
}

TEST(what_is_no_file_is_not_written_to)
{
    int fd;
    ASSERT_EQ(mkfifo(test_path("pipe"), 0600), 0);
    ASSERT_FAILS(lk__storage_open_write(test_path("pipe"), &fd), LK_EIO, "pipe: is not a file");
    ASSERT_FAILS(lk__storage_open_write(test_folder(), &fd), LK_EIO, "Is a directory");
}

static void *sync_slowly(void *arg)
{
    int fd;
    lk__storage_show(arg);
    ASSERT_OK(lk__storage_create(test_path("slow"), 0600, &fd));
    ASSERT_OK(lk__storage_sync(fd, test_path("slow")));
    lk__storage_release(fd);
    lk__storage_show(NULL);
    return NULL;
}

TEST(another_thread_sees_which_call_is_slow)
{
    lk__storage_status doing = LK__STORAGE_STATUS_INIT;
    pthread_t thread;
    char text[LK__STORAGE_STATUS_SIZE] = "";
    (void)test_folder();
    lk__storage_fail(LK__STORAGE_SYNC, 1, LK__STORAGE_SLOW_MS(200), false);
    ASSERT_EQ(pthread_create(&thread, NULL, sync_slowly, &doing), 0);
    while (!strstr(text, "sync of ") || !strstr(text, "/slow"))
        lk__storage_status_text(&doing, text);
    ASSERT_EQ(pthread_join(thread, NULL), 0);
}
