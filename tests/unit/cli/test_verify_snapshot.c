/* Where two snapshots differ: planted differences are found by layer, tensor and element. */
#include "data_files.h"
#include "harness.h"
#include "verify/snapshot.h"

#include <string.h>

static const char *const names[] = {
    "res1.conv1.weight", "state/res1.conv1.mean", "optimizer/m/res1.conv1.weight",
    "head.bias",         "optimizer/m/head.bias", "optimizer/scale"};

enum { TENSORS = sizeof names / sizeof names[0], ELEMENTS = 6 };

/* Write a snapshot in which tensors `first` and on have another element `at`; the first `n` tensors. */
static void file_write(const char *file, int first, int at, int n)
{
    lk_named_tensor named[TENSORS];
    for (int t = 0; t < n; t++) {
        lk_tensor *x = NULL;
        ASSERT_OK(lk_tensor_zeros(LK_F32, LK_SHAPE(2, 3), &x));
        for (int i = 0; i < ELEMENTS; i++)
            ((float *)lk_tensor_data(x))[i] = (float)(t + i);
        if (t >= first)
            ((float *)lk_tensor_data(x))[at] = -0.5F;
        named[t] = (lk_named_tensor){names[t], x};
    }
    ASSERT_OK(lk_safetensors_write(test_path(file), named, n, NULL, 0));
    for (int t = 0; t < n; t++)
        lk_tensor_free(named[t].tensor);
}

/* Compare the files a and b. */
static lk_status compare(int *differ, char text[SNAPSHOT_TEXT])
{
    lk_safetensors *a = NULL, *b = NULL;
    ASSERT_OK(lk_safetensors_open(test_path("a"), &a));
    ASSERT_OK(lk_safetensors_open(test_path("b"), &b));
    lk_status st = snapshot_compare(a, b, differ, text);
    lk_safetensors_close(a);
    lk_safetensors_close(b);
    return st;
}

TEST(the_first_tensor_that_differs_is_named_by_its_layer)
{
    static const char *const said[TENSORS] = {
        "layer res1.conv1, parameter weight, element 4 of 6: 4 (0x1p+2) and -0.5 (-0x1p-1); 5 "
        "other tensors differ",
        "layer res1.conv1, state mean, element 4 of 6: 5 (0x1.4p+2) and -0.5 (-0x1p-1); 4 other "
        "tensors differ",
        "layer res1.conv1, the optimizer's m of weight, element 4 of 6: 6 (0x1.8p+2) and -0.5 "
        "(-0x1p-1); 3 other tensors differ",
        "layer head, parameter bias, element 4 of 6: 7 (0x1.cp+2) and -0.5 (-0x1p-1); 2 other "
        "tensors differ",
        "layer head, the optimizer's m of bias, element 4 of 6: 8 (0x1p+3) and -0.5 (-0x1p-1); 1 "
        "other tensor differs",
        "the optimizer's number scale, element 4 of 6: 9 (0x1.2p+3) and -0.5 (-0x1p-1)"};
    char text[SNAPSHOT_TEXT];
    int differ;
    file_write("a", TENSORS, 0, TENSORS);
    for (int t = 0; t < TENSORS; t++) {
        file_write("b", t, 4, TENSORS);
        ASSERT_OK(compare(&differ, text));
        ASSERT_TRUE(differ == TENSORS - t);
        if (strcmp(text, said[t]) != 0)
            TEST_FAIL("\"%s\" instead of \"%s\"", text, said[t]);
    }
    file_write("b", TENSORS, 0, TENSORS);
    ASSERT_OK(compare(&differ, text));
    ASSERT_TRUE(differ == 0 && !*text);
}

TEST(snapshots_of_other_tensors_are_an_error)
{
    char text[SNAPSHOT_TEXT];
    int differ;
    file_write("a", TENSORS, 0, TENSORS);
    file_write("b", TENSORS, 0, TENSORS - 1);
    ASSERT_FAILS(compare(&differ, text), LK_ESTATE, "6 tensors and 5 do not match");
}
