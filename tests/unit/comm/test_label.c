/* What a message says of itself: names and shapes, also such as no rank would send. */
#include "comm/wire.h"
#include "harness.h"

static lk__label labelled(const char *name, int ndim, const int64_t *dim)
{
    lk__label label;
    memset(&label, 0xee, sizeof label);
    lk__label_name(&label, name);
    lk__label_shape_add(&label, ndim, dim);
    return label;
}

TEST(a_shape_is_read_as_it_was_written)
{
    static const int64_t sizes[] = {0, 1, 127, 128, 16383, 16384, INT64_C(1) << 56, INT64_MAX};
    int64_t dim[LK_MESSAGE_AXES];
    int ndim;
    for (int n = 0; n <= LK_MESSAGE_AXES; n++) {
        lk__label label = labelled("weights", n, sizes);
        ASSERT_TRUE(lk__label_shape(&label, &ndim, dim));
        ASSERT_EQ(ndim, n);
        ASSERT_SAME_BITS(dim, sizes, (size_t)n * sizeof *dim);
        ASSERT_TRUE(strcmp(label.name, "weights") == 0);
        ASSERT_TRUE(label.name[label.h.text] == '\0');
    }
}

TEST(a_name_without_a_shape_has_none)
{
    lk__label label;
    int64_t dim[LK_MESSAGE_AXES];
    int ndim = 0;
    memset(&label, 0xee, sizeof label);
    for (int long_one = 0; long_one < 2; long_one++) {
        char name[200];
        memset(name, 'n', sizeof name);
        name[long_one ? 199 : 8] = '\0';
        lk__label_name(&label, name);
        ASSERT_TRUE(lk__label_shape(&label, &ndim, dim));
        ASSERT_EQ(ndim, -1);
    }
    lk__label_name(&label, NULL);
    ASSERT_TRUE(lk__label_shape(&label, &ndim, dim) && ndim == -1);
}

TEST(of_a_long_name_the_end_stays_before_the_shape)
{
    int64_t largest[LK_MESSAGE_AXES], dim[LK_MESSAGE_AXES];
    char name[LK_WIRE_NAME + 1];
    int ndim;
    for (int i = 0; i < LK_MESSAGE_AXES; i++)
        largest[i] = INT64_MAX;
    for (int i = 0; i < LK_WIRE_NAME; i++)
        name[i] = (char)('a' + i % 26);
    name[LK_WIRE_NAME] = '\0';
    lk__label label = labelled(name, LK_MESSAGE_AXES, largest);
    ASSERT_EQ(label.h.text, LK_WIRE_NAME);
    ASSERT_TRUE(lk__label_shape(&label, &ndim, dim) && ndim == LK_MESSAGE_AXES);
    ASSERT_SAME_BITS(dim, largest, sizeof dim);
    size_t n = strlen(label.name);
    ASSERT_TRUE(n == LK_WIRE_NAME - 1 - 9 * LK_MESSAGE_AXES);
    ASSERT_TRUE(strcmp(label.name, name + LK_WIRE_NAME - n) == 0);
}

/* Bytes behind the name that are no sizes: never read beyond the text, never a wrong size. */
TEST(what_is_no_shape_is_refused)
{
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        {"\x80", 1},                                      /* the number has no end */
        {"\x05\xff", 2},                                  /* nor has the second */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10}, /* 2^63 and more */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12} /* more bytes than there are */,
        {"\x01\x01\x01\x01\x01\x01\x01\x01\x01", 9}, /* nine axes */
    };
    int64_t dim[LK_MESSAGE_AXES];
    int ndim;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lk__label label;
        memset(&label, 0, sizeof label);
        lk__label_name(&label, "x");
        memcpy(label.name + 2, bad[i].bytes, bad[i].n);
        label.h.text = (uint8_t)(2 + bad[i].n);
        ASSERT_TRUE(!lk__label_shape(&label, &ndim, dim));
    }
}
