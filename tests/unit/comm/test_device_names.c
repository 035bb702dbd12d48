/* Names of devices: what each text means on a machine of two sockets, four cores and eight processors,
 * what is said about wrong ones, and how the machine is read where there is no hwloc. */
#include "comm/device/device.h"
#include "harness.h"

#include <lockstep/extra/alloc.h>

#include <dlfcn.h>
#include <sys/stat.h>

static bool no_hwloc;

/* Stands before the C library's: hwloc can be missing. */
void *dlopen(const char *path, int flags)
{
    void *(*real)(const char *, int);
    void *symbol = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &symbol, sizeof real);
    if (no_hwloc && path && strstr(path, "hwloc"))
        return NULL;
    return real(path, flags);
}

static lk__machine machine;

/* Core c has processors c and c + 4; sockets have two cores, the second one's NUMA node is 0. */
static void machine_begin(const int *allowed, int n)
{
    memset(&machine, 0, sizeof machine);
    machine.known = true;
    for (int p = 0; p < LK_MAX_PROCESSORS; p++)
        machine.processor[p] = p < 8 ? (lk__processor){p % 4 / 2, 0, p % 4, 1 - p % 4 / 2}
                                     : (lk__processor){-1, -1, -1, -1};
    for (int i = 0; i < n; i++)
        lk__processors_add(&machine.allowed, allowed[i]);
}

static const int eight[] = {0, 1, 2, 3, 4, 5, 6, 7};

static lk_status read_text(const char *whole, lk_device *out)
{
    lk__device_text text = {"device", whole, whole, whole + strlen(whole)};
    return lk__device_read(&machine, &text, out);
}

static void expect(const char *text, const char *name, const char *processors)
{
    lk_device d;
    char list[64];
    ASSERT_OK(read_text(text, &d));
    lk_device_processors_text(&d, list, sizeof list);
    if (d.kind != LK_DEVICE_CPU || strcmp(d.name, name) != 0 || strcmp(list, processors) != 0)
        TEST_FAIL("%s is %s with %s, not %s with %s", text, d.name, list, name, processors);
    lk_device again;
    ASSERT_OK(read_text(d.name, &again));
    ASSERT_SAME_BITS(&again, &d, sizeof d);
}

TEST(each_kind_and_range_names_its_processors)
{
    machine_begin(eight, 8);
    expect("cpu:0", "cpu:0", "0");
    expect("cpu:7", "cpu:7", "7");
    expect("cpu:0-3", "cpu:0-3", "0-3");
    expect("cpu:7+0-1+3", "cpu:0-1+3+7", "0-1,3,7");
    expect("cpu:0+1+2", "cpu:0-2", "0-2");
    expect("cpu:003", "cpu:3", "3");
    expect("core:2", "core:2", "2,6");
    expect("core:2-3", "core:2-3", "2-3,6-7");
    expect("core:1-1", "core:1", "1,5");
    expect("socket:1", "socket:1", "2-3,6-7");
    expect("socket:0-1", "socket:0-1", "0-7");
    expect("numa:0", "numa:0", "2-3,6-7");
    expect("numa:1", "numa:1", "0-1,4-5");
}

TEST(the_mask_takes_its_part_of_each)
{
    static const int some[] = {0, 2, 6};
    machine_begin(some, 3);
    expect("cpu:2", "cpu:2", "2");
    expect("core:0", "core:0", "0");
    expect("core:2", "core:2", "2,6");
    expect("socket:0", "socket:0", "0");
    lk_device d;
    ASSERT_FAILS(
        read_text("cpu:0-2", &d), LK_EINVAL,
        "device \"cpu:0-2\", column 5: there is no cpu:0-2 that this thread may use; there "
        "are cpu:0,2,6");
    ASSERT_FAILS(read_text("core:1", &d), LK_EINVAL,
                 "there is no core:1 that this thread may use; there are core:0,2");
}

TEST(wrong_texts_are_refused_with_their_column_and_what_there_is)
{
    static const struct {
        const char *text, *said;
    } row[] = {
        {"", "column 1: a device is missing; say cpu:0, core:2-3 or socket:1"},
        {":0", "column 1: a device is missing"},
        {"gpu:0",
         "column 1: no kind of device \"gpu\"; there are cpu:N, core:N, socket:N and numa:N"},
        {"CPU:0", "column 1: no kind of device \"CPU\""},
        {"cpus:0", "column 1: no kind of device \"cpus\""},
        {" cpu:0", "column 1: no kind of device \" cpu\""},
        {"cpu", "column 4: a number is missing: say cpu:0, or cpu:0-1"},
        {"cpu:", "column 5: a number is missing"},
        {"cpu:-1", "column 5: a number is missing"},
        {"cpu:x", "column 5: a number is missing"},
        {"cpu:0-", "column 7: a number is missing"},
        {"cpu:0+", "column 7: a number is missing"},
        {"cpu:0-1-2", "column 8: \"-\" is out of place: ranges are written 0-3+8-11"},
        {"cpu:0 ", "column 6: \" \" is out of place"},
        {"cpu:0,1", "column 6: \",\" is out of place"},
        {"cpu:1+core:0", "column 7: a number is missing"},
        {"core:3-2", "column 6: the range 3-2 runs backwards; say 2-3"},
        {"core:4", "column 6: there is no core:4 that this thread may use; there are core:0-3"},
        {"core:2-4", "column 6: there is no core:2-4 that"},
        {"cpu:4095", "there is no cpu:4095 that"},
        {"cpu:4096", "there is no cpu:4096 that"},
        {"cpu:99999999999999999999", "there is no cpu:99999999999999999999 that"},
        {"socket:2", "there are socket:0-1"},
        {"numa:2", "there are numa:0-1"},
        {"cpu:0-2+1", "column 9: cpu:1 is there twice"},
    };
    machine_begin(eight, 8);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        lk_device d = {.name = "before"};
        char begin[64];
        snprintf(begin, sizeof begin, "device \"%s\", ", row[i].text);
        ASSERT_EQ(read_text(row[i].text, &d), LK_EINVAL);
        if (!strstr(lk_error_message(), begin) || !strstr(lk_error_message(), row[i].said))
            TEST_FAIL("\"%s\" is refused with: %s", row[i].text, lk_error_message());
        ASSERT_EQ(strcmp(d.name, "before"), 0);
        lk_error_clear();
    }
}

TEST(a_name_that_has_no_room_is_refused)
{
    char text[512];
    int n = snprintf(text, sizeof text, "cpu:100");
    machine_begin(eight, 8);
    for (int p = 100; p < 200; p += 2)
        lk__processors_add(&machine.allowed, p);
    lk_device d;
    for (int p = 102; p < 170; p += 2) {
        n += snprintf(text + n, sizeof text - (size_t)n, "+%d", p);
        if (n < LK_DEVICE_NAME - 4)
            ASSERT_OK(read_text(text, &d));
    }
    ASSERT_FAILS(read_text(text, &d), LK_EINVAL,
                 "too many ranges: a device's name has at most 127 characters");
}

TEST(what_is_not_known_is_refused_with_the_reason)
{
    lk_device d;
    machine_begin(eight, 8);
    for (int p = 0; p < 8; p++)
        machine.processor[p].package = machine.processor[p].numa = -1;
    machine.reason = "hwloc is not installed";
    ASSERT_FAILS(
        read_text("socket:0", &d), LK_ENOTSUP,
        "sockets are not known here: hwloc is not installed, and the system does not tell");
    machine.reason = NULL;
    ASSERT_FAILS(read_text("numa:0", &d), LK_ENOTSUP,
                 "NUMA nodes are not known here: hwloc finds none");
}

TEST(the_list_is_every_core_of_the_mask)
{
    static const int some[] = {1, 3, 5};
    lk__device_list list;
    machine_begin(some, 3);
    ASSERT_OK(lk__devices_all(&machine, &list));
    ASSERT_EQ(list.n, 2);
    ASSERT_EQ(strcmp(list.entry[0].name, "core:1"), 0);
    ASSERT_EQ(strcmp(list.entry[1].name, "core:3"), 0);
    ASSERT_EQ(lk_device_n_processors(&list.entry[0]), 2);
    ASSERT_EQ(list.entry[1].processors[0], 1 << 3);
    lk_free(list.entry);
}

/* ---- without hwloc ---- */

static char root[] = "/tmp/lockstep-devices-XXXXXX";

static void file_write(const char *folder, int number, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s%d%s", root, folder, number, name);
    for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    ASSERT_TRUE(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Two sockets that the firmware calls 7 and 3, processors dealt out by turns, hardware threads 8 apart. */
static void files_write(void)
{
    ASSERT_TRUE(mkdtemp(root));
    for (int p = 0; p < 16; p++) {
        char siblings[32];
        snprintf(siblings, sizeof siblings, "%d,%d\n", p % 8, p % 8 + 8);
        file_write("cpu/cpu", p, "/topology/thread_siblings_list", siblings);
        file_write("cpu/cpu", p, "/topology/physical_package_id", p % 2 ? "3\n" : "7\n");
    }
    file_write("cpu/cpu", 20, "/topology/physical_package_id", "-1\n");
    file_write("node/node", 1, "/cpulist", "1,3,5,7,9,11,13,15\n");
    file_write("node/node", 4, "/cpulist", "0,2,4-4,6,8,10,12,14\n");
    file_write("node/node", 5, "/cpulist", "\n");
}

TEST(the_files_of_the_system_give_the_numbers_of_hwloc)
{
    static lk__processor found[LK_MAX_PROCESSORS];
    files_write();
    lk__machine_read_system(root, found);
    for (int p = 0; p < LK_MAX_PROCESSORS; p++) {
        bool there = p < 16;
        ASSERT_EQ(found[p].package, there ? p % 2 : -1);
        ASSERT_EQ(found[p].numa, there ? p % 2 : -1);
        ASSERT_EQ(found[p].core, there ? p % 8 / 2 + p % 2 * 4 : -1);
        ASSERT_EQ(found[p].cache, -1);
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    ASSERT_EQ(system(command), 0);
    lk__machine_read_system(root, found); /* which is gone */
    for (int p = 0; p < LK_MAX_PROCESSORS; p++)
        ASSERT_TRUE(found[p].package == -1 && found[p].core == -1 && found[p].numa == -1);
}

TEST(both_sources_agree_on_this_machine)
{
    static lk__processor by_hwloc[LK_MAX_PROCESSORS], by_system[LK_MAX_PROCESSORS];
    const char *source = lk__machine_read(by_hwloc);
    lk__machine_read_system("/sys/devices/system", by_system);
    if (strcmp(source, "hwloc") != 0) {
        printf("not tested: the system's files against hwloc: %s\n", source);
        return;
    }
    for (int p = 0; p < LK_MAX_PROCESSORS; p++) {
        if (by_hwloc[p].core < 0) /* a container may have less than its system */
            continue;
        by_system[p].cache = by_hwloc[p].cache;
        ASSERT_SAME_BITS(&by_system[p], &by_hwloc[p], sizeof by_system[p]);
    }
}

TEST(devices_have_the_same_names_without_hwloc)
{
    static const char *const texts[] = {"core:0", "0", "socket:0", "numa:0"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lk_device with, without;
        no_hwloc = false;
        lk_status st = lk_device_parse(texts[i], &with);
        no_hwloc = true;
        ASSERT_EQ(lk_device_parse(texts[i], &without), st);
        if (st == LK_OK)
            ASSERT_SAME_BITS(&without, &with, sizeof with);
        else
            printf("not tested: %s: %s\n", texts[i], lk_error_message());
    }
    no_hwloc = false;
}
