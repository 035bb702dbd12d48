/* Names that are symbolic links: their targets are never written to. */
#include "data_files.h"

#include <lockstep/io.h>

static const char victim_text[] = "what somebody else needs\n";

/* A link `name` to a file that must stay as it is; returns the path of the link. */
static const char *link_make(const char *name, const char *target)
{
    const char *path = test_path(name);
    remove(path);
    ASSERT_EQ(symlink(target, path), 0);
    return path;
}

static const char *victim_make(void)
{
    return test_write("victim", victim_text, sizeof victim_text - 1);
}

static void victim_check(void)
{
    test_expect_file(test_path("victim"), victim_text, sizeof victim_text - 1);
}

static bool is_file(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static void report_write(const char *path)
{
    ASSERT_OK(lk_report_write(path, &(lk_report){.title = "links"}));
    ASSERT_TRUE(is_file(path));
}

TEST(a_temporary_name_that_is_a_link_is_not_followed)
{
    link_make("page.html.part", victim_make());
    report_write(test_path("page.html"));
    victim_check();
    link_make("page.html.part", "/nowhere/at/all");
    report_write(test_path("page.html"));
    ASSERT_TRUE(access(test_path("page.html.part"), F_OK) != 0);
}

TEST(a_final_name_that_is_a_link_is_replaced)
{
    const char *path = link_make("linked.html", victim_make());
    report_write(path);
    victim_check();
}

TEST(a_file_that_grows_replaces_a_link_when_it_begins)
{
    lk_jsonl *l;
    lk_tfevents *e;
    const char *path = link_make("metrics.jsonl", victim_make());
    ASSERT_OK(lk_jsonl_open(path, false, &l));
    ASSERT_OK(lk_jsonl_add(l, &(lk_kv){.name = "epoch", .type = LK_KV_INT}, 1));
    ASSERT_OK(lk_jsonl_close(l));
    ASSERT_TRUE(is_file(path));
    victim_check();
    path = link_make("tfevents", victim_make());
    ASSERT_OK(lk_tfevents_open(path, false, &e));
    ASSERT_OK(lk_tfevents_close(e));
    ASSERT_TRUE(is_file(path));
    victim_check();
}

TEST(a_file_that_goes_on_behind_a_link_is_refused)
{
    lk_jsonl *l;
    lk_tfevents *e;
    const char *path = link_make("metrics.jsonl", victim_make());
    ASSERT_FAILS(lk_jsonl_open(path, true, &l), LK_EIO,
                 "metrics.jsonl: is a symbolic link, which is not written through; remove it");
    victim_check();
    ASSERT_OK(lk_tfevents_open(test_path("real"), false, &e));
    ASSERT_OK(lk_tfevents_close(e));
    path = link_make("tfevents", test_path("real"));
    ASSERT_FAILS(lk_tfevents_open(path, true, &e), LK_EIO, "tfevents: is a symbolic link");
}
