/* Lists of devices: those of the process, under its affinity mask and LK_DEVICES, and those of texts; and
 * threads that are bound to them.  On this machine, and on twelve processors that are pretended. */
#include "faults.h"
#include "processors.h"

#include <lockstep/device.h>
#include <lockstep/thread.h>

enum { ROOM = 64 };

static lk_device list[ROOM], other[ROOM];

static int available(lk_device *out)
{
    int n = -1;
    memset(out, 0, ROOM * sizeof *out);
    ASSERT_OK(lk_devices_available(out, ROOM, &n));
    ASSERT_TRUE(n >= 1);
    return n;
}

/* As a process that nobody bound, with LK_DEVICES or without. */
static void start(const char *devices)
{
    ASSERT_OK(lk_device_bind(NULL));
    if (devices)
        setenv("LK_DEVICES", devices, 1);
    else
        unsetenv("LK_DEVICES");
}

static lk__processors set_of(const lk_device *d)
{
    lk__processors set;
    memcpy(&set, d->processors, sizeof set);
    return set;
}

TEST(on_this_machine)
{
    processors_begin();
}

TEST(the_cores_of_the_mask_are_listed_once_each)
{
    start(NULL);
    int n = available(list);
    lk__processors together = {{0}};
    int sum = 0;
    for (int i = 0; i < n && i < ROOM; i++) {
        lk__processors set = set_of(&list[i]);
        ASSERT_EQ(list[i].kind, LK_DEVICE_CPU);
        ASSERT_EQ(strncmp(list[i].name, "core:", 5), 0);
        sum += lk__processors_count(&set);
        for (int w = 0; w < LK__PROCESSOR_WORDS; w++)
            together.word[w] |= set.word[w];
        lk_device d;
        ASSERT_OK(lk_device_parse(list[i].name, &d));
        ASSERT_SAME_BITS(&d, &list[i], sizeof d);
    }
    if (n <= ROOM) {
        ASSERT_TRUE(lk__processors_same(&together, &all));
        ASSERT_EQ(sum, n_all);
    }
}

TEST(a_narrow_mask_narrows_the_list)
{
    start(NULL);
    lk__processors one = some(n_all - 1, 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, (cpu_set_t *)&one), 0);
    ASSERT_EQ(available(list), 1);
    lk__processors set = set_of(&list[0]);
    ASSERT_TRUE(lk__processors_same(&set, &one));
    lk_device d;
    int last = 0;
    while (!lk__processors_have(&one, last))
        last++;
    char text[32], said[64];
    snprintf(text, sizeof text, "cpu:0-%d", last);
    snprintf(said, sizeof said, "; there are cpu:%d", last);
    if (last > 0)
        ASSERT_FAILS(lk_device_parse(text, &d), LK_EINVAL, said);
    ASSERT_FAILS(lk_device_parse("1", &d), LK_EINVAL,
                 "device \"1\", column 1: there is no device 1; there are 1, counted from 0");
    ASSERT_EQ(sched_setaffinity(0, sizeof all, (cpu_set_t *)&all), 0);
}

TEST(binding_does_not_narrow_the_list)
{
    start(NULL);
    int n = available(list);
    ASSERT_OK(lk_device_bind(&list[n > ROOM ? 0 : n - 1]));
    ASSERT_EQ(available(other), n);
    ASSERT_SAME_BITS(other, list, sizeof list);
    start(NULL);
}

TEST(LK_DEVICES_chooses_from_the_list_in_its_order)
{
    start(NULL);
    int n = available(list);
    start("");
    ASSERT_EQ(available(other), n);
    start("0");
    ASSERT_EQ(available(other), 1);
    ASSERT_SAME_BITS(&other[0], &list[0], sizeof list[0]);
    if (n < 2) {
        printf("not tested: the order of LK_DEVICES, for want of a second core\n");
        return;
    }
    start("1,0");
    ASSERT_EQ(available(other), 2);
    ASSERT_SAME_BITS(&other[0], &list[1], sizeof list[1]);
    ASSERT_SAME_BITS(&other[1], &list[0], sizeof list[0]);
    /* Programs count in what they can see. */
    lk_device d;
    ASSERT_OK(lk_device_parse("0", &d));
    ASSERT_SAME_BITS(&d, &list[1], sizeof d);
    start("1");
    ASSERT_OK(lk_device_parse("0", &d));
    ASSERT_SAME_BITS(&d, &list[1], sizeof d);
    ASSERT_FAILS(lk_device_parse("1", &d), LK_EINVAL, "there is no device 1; there are 1, counted");
    char names[2 * LK_DEVICE_NAME];
    snprintf(names, sizeof names, "%s,0", list[1].name);
    start(names);
    ASSERT_EQ(available(other), 2);
    ASSERT_SAME_BITS(&other[0], &list[1], sizeof list[1]);
    start(NULL);
}

TEST(a_wrong_LK_DEVICES_is_an_error_that_quotes_it)
{
    static const struct {
        const char *value, *said;
    } row[] = {
        {"0,0", "LK_DEVICES \"0,0\", column 3: the device core:"},
        {"0,0", " is there twice, first as entry 0"},
        {"4096", "LK_DEVICES \"4096\", column 1: there is no device 4096; there are "},
        {"99999999999999999999999", "there is no device 99999999999999999999999; there are "},
        {"all", "column 1: no kind of device \"all\""},
        {"0,", "LK_DEVICES \"0,\", column 3: a device is missing"},
        {",0", "LK_DEVICES \",0\", column 1: a device is missing"},
        {"0,,1", "column 3: a device is missing"},
        {"-1", "column 1: no kind of device \"-1\""},
        {"0-1",
         "column 2: \"-\" is out of place behind a number; ranges need a kind, as in core:0-1"},
        {"0 ,1", "column 2: \" \" is out of place behind a number"},
        {"0, 1", "column 3: no kind of device \" 1\""},
        {"0,cpu:4095x", "LK_DEVICES \"0,cpu:4095x\", column 7: there is no cpu:4095"},
    };
    char first[LK_DEVICE_NAME];
    start(NULL);
    available(list);
    memcpy(first, list[0].name, sizeof first);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        int n = -7;
        lk_device d;
        start(row[i].value);
        ASSERT_FAILS(lk_devices_available(list, ROOM, &n), LK_EINVAL, row[i].said);
        ASSERT_EQ(n, -7);
        ASSERT_FAILS(lk_device_parse("0", &d), LK_EINVAL, row[i].said);
        ASSERT_OK(lk_device_parse(first, &d)); /* which asks for no list */
    }
    static char many[2 * LK_MAX_PROCESSORS + 4];
    memset(many, ',', sizeof many - 1);
    start(many);
    int n;
    ASSERT_FAILS(lk_devices_available(list, ROOM, &n), LK_EINVAL,
                 "LK_DEVICES: a list of more than 4096 devices");
    start(NULL);
}

TEST(texts_name_lists)
{
    int n = -1;
    start(NULL);
    int all_of_them = available(list);
    ASSERT_OK(lk_devices_parse("0", other, ROOM, &n));
    ASSERT_EQ(n, 1);
    ASSERT_SAME_BITS(&other[0], &list[0], sizeof list[0]);
    ASSERT_FAILS(lk_devices_parse("", other, ROOM, &n), LK_EINVAL,
                 "devices \"\", column 1: a device is missing");
    char twice[LK_DEVICE_NAME + 2];
    snprintf(twice, sizeof twice, "0,%s", list[0].name);
    ASSERT_FAILS(lk_devices_parse(twice, other, ROOM, &n), LK_EINVAL, "column 3: the device core:");
    if (all_of_them < 2) {
        printf("not tested: a list of two, for want of a second core\n");
        return;
    }
    ASSERT_OK(lk_devices_parse("1,0", other, 1, &n));
    ASSERT_EQ(n, 2);
    ASSERT_SAME_BITS(&other[0], &list[1], sizeof list[1]);
}

TEST(room_says_how_many_are_written)
{
    int n = -1;
    start(NULL);
    int there = available(list);
    ASSERT_OK(lk_devices_available(NULL, 0, &n));
    ASSERT_EQ(n, there);
    memset(other, 0x5a, sizeof other);
    ASSERT_OK(lk_devices_available(other, 1, &n));
    ASSERT_EQ(n, there);
    ASSERT_SAME_BITS(&other[0], &list[0], sizeof list[0]);
    ASSERT_EQ(((unsigned char *)&other[1])[0], 0x5a);
    ASSERT_FAILS(lk_devices_available(NULL, 1, &n), LK_EINVAL, "out is NULL");
    ASSERT_FAILS(lk_devices_available(list, -1, &n), LK_EINVAL, "room for -1 devices");
    ASSERT_FAILS(lk_devices_available(list, 1, NULL), LK_EINVAL, "n is NULL");
    ASSERT_FAILS(lk_devices_parse(NULL, list, 1, &n), LK_EINVAL, "text is NULL");
    ASSERT_FAILS(lk_devices_parse("0", list, -1, &n), LK_EINVAL, "room for -1 devices");
    ASSERT_FAILS(lk_device_parse(NULL, list), LK_EINVAL, "text is NULL");
    ASSERT_FAILS(lk_device_parse("0", NULL), LK_EINVAL, "out is NULL");
}

TEST(a_bound_thread_has_the_processors_of_its_device)
{
    start(NULL);
    ASSERT_OK(lk_threads_set(0));
    int n = available(list), threads;
    for (int i = 0; i < n && i < 4; i++) {
        lk__processors mask, set = set_of(&list[i]);
        ASSERT_OK(lk_device_bind(&list[i]));
        ASSERT_TRUE(lk__processors_allowed(&mask));
        ASSERT_TRUE(lk__processors_same(&mask, &set));
        ASSERT_OK(lk_threads_now(&threads));
        ASSERT_EQ(threads, lk_device_n_processors(&list[i]));
    }
    lk_device bad = list[0];
    bad.kind = (lk_device_kind)7;
    ASSERT_FAILS(lk_device_bind(&bad), LK_ENOTSUP,
                 "\" is of kind 7; threads are bound to processors");
    bad = (lk_device){.kind = LK_DEVICE_CPU, .name = "nothing"};
    ASSERT_FAILS(lk_device_bind(&bad), LK_EINVAL, "device \"nothing\" has no processors");
    bad.processors[LK_MAX_PROCESSORS / 64 - 1] = UINT64_C(1) << 63;
    ASSERT_FAILS(lk_device_bind(&bad), LK_EINVAL,
                 "processors 4095 are not all among those that this thread may use: ");
    memset(bad.name, 'x', sizeof bad.name); /* a host's name need not end */
    bad.kind = (lk_device_kind)-1;
    ASSERT_FAILS(lk_device_bind(&bad), LK_ENOTSUP, "xxxx\" is of kind -1");
    start(NULL);
    lk__processors mask;
    ASSERT_TRUE(lk__processors_allowed(&mask));
    ASSERT_TRUE(lk__processors_same(&mask, &all));
}

static lk_status ask_for_all(void)
{
    int n;
    lk_device d;
    LK_TRY(lk_devices_available(other, ROOM, &n));
    LK_TRY(lk_devices_parse("0", other, ROOM, &n));
    LK_TRY(lk_device_parse("0", &d));
    LK_TRY(lk_device_parse(d.name, &d));
    LK_TRY(lk_device_bind(&d));
    return LK_TRACE(lk_device_bind(NULL));
}

TEST(failing_allocations_are_reported_and_leave_nothing)
{
    start("0");
    ASSERT_TRUE(test_every_allocation_fails(ask_for_all) >= 8);
    start(NULL);
}

TEST(on_twelve_processors)
{
    start(NULL);
    processors_pretend(12);
}

TEST_AGAIN(the_cores_of_the_mask_are_listed_once_each)
TEST_AGAIN(a_narrow_mask_narrows_the_list)
TEST_AGAIN(binding_does_not_narrow_the_list)
TEST_AGAIN(LK_DEVICES_chooses_from_the_list_in_its_order)
TEST_AGAIN(a_wrong_LK_DEVICES_is_an_error_that_quotes_it)
TEST_AGAIN(texts_name_lists)
TEST_AGAIN(room_says_how_many_are_written)
TEST_AGAIN(a_bound_thread_has_the_processors_of_its_device)
TEST_AGAIN(failing_allocations_are_reported_and_leave_nothing)
