/* For tests of experiment files. */
#ifndef LK_TEST_YAML_H
#define LK_TEST_YAML_H

#include "config/node.h"
#include "harness.h"

/* The tree of a text, which is called x.yaml. */
static inline lk__yaml_node *test_yaml(const char *text, lk_arena *arena)
{
    lk__yaml_node *root;
    lk_status st = lk__yaml_read("x.yaml", text, strlen(text), arena, &root);
    if (st == LK_ENOTSUP) {
        printf("SKIPPED: %s\n", lk_error_message());
        exit(77);
    }
    ASSERT_OK(st);
    return root;
}

#endif /* LK_TEST_YAML_H */
