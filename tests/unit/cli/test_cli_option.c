/* Options on the command line: short forms, and texts that are given several times. */
#include "harness.h"
#include "option.h"

struct fields {
    const char *host, *lines;
    bool loud;
    int64_t n;
};

static const lk_option table[] = {
    {.name = "host",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(struct fields, host),
     .help = "where"},
    {.name = "H", .flags = OPTION_SHORT},
    {.name = "lines",
     .type = LK_OPTION_TEXT,
     .offset = offsetof(struct fields, lines),
     .help = "what",
     .flags = OPTION_LINES},
    {.name = "ln", .flags = OPTION_SHORT},
    {.name = "loud",
     .type = LK_OPTION_FLAG,
     .offset = offsetof(struct fields, loud),
     .help = "how"},
    {.name = "v", .flags = OPTION_SHORT},
    {.name = "n", .type = LK_OPTION_INT, .offset = offsetof(struct fields, n), .help = "many"},
    {.name = NULL},
};

static lk_arena *arena; /* of the texts of all tests */

static lk_status parse(struct fields *out, int argc, const char *const *words, int *n_operands)
{
    char *argv[8];
    if (!arena)
        ASSERT_OK(lk_arena_new(&arena));
    *out = (struct fields){.host = NULL};
    for (int i = 0; i < argc; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    const option_reader reader = {.table = table, .command = "test", .fields = out, .arena = arena};
    return option_parse(&reader, argc, argv, n_operands);
}

#define PARSE(out, ...)                                                       \
    parse(out, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), \
          (const char *[]){__VA_ARGS__}, &(int){0})

/* What parse() prints of a mistake, which it must be. */
static const char *mistake(int argc, const char *const *words)
{
    static char text[512];
    struct fields f;
    int n;
    FILE *file = tmpfile();
    ASSERT_TRUE(file != NULL);
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    ASSERT_TRUE(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    lk_status st = parse(&f, argc, words, &n);
    fflush(stderr);
    ASSERT_TRUE(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ASSERT_EQ(st, LK_EINVAL);
    return text;
}

TEST(a_short_form_is_the_option)
{
    struct fields f;
    ASSERT_OK(PARSE(&f, "-H", "a,b", "-v", "-n", "3"));
    ASSERT_TRUE(strcmp(f.host, "a,b") == 0 && f.loud && f.n == 3);
    ASSERT_OK(PARSE(&f, "--host=a", "--loud"));
    ASSERT_TRUE(strcmp(f.host, "a") == 0 && f.loud);
    ASSERT_OK(PARSE(&f, "-H", "a", "--host", "b"));
    ASSERT_TRUE(strcmp(f.host, "b") == 0);
}

TEST(short_forms_have_one_dash_and_long_ones_two)
{
    ASSERT_TRUE(strstr(mistake(2, (const char *[]){"--H", "a"}), "unknown option \"--H\""));
    ASSERT_TRUE(strstr(mistake(2, (const char *[]){"-host", "a"}), "unknown option \"-host\""));
    ASSERT_TRUE(strstr(mistake(2, (const char *[]){"--ln", "a"}), "unknown option \"--ln\""));
    ASSERT_TRUE(strstr(mistake(1, (const char *[]){"-V"}), "unknown option \"-V\""));
}

TEST(messages_have_the_long_name)
{
    ASSERT_TRUE(strstr(mistake(1, (const char *[]){"-H"}), "option --host needs a value: --host"));
    ASSERT_TRUE(strstr(mistake(1, (const char *[]){"-v=1"}), "option --loud: \"1\" is a value"));
}

TEST(texts_that_are_given_again_are_lines)
{
    struct fields f;
    ASSERT_OK(PARSE(&f, "-ln", "A=1 2", "--lines", "B", "-ln", ""));
    ASSERT_TRUE(strcmp(f.lines, "A=1 2\nB\n") == 0);
    ASSERT_TRUE(strstr(mistake(2, (const char *[]){"-ln", "a\nb"}),
                       "option --lines: the value has several lines"));
}

TEST(help_has_both_in_one_line)
{
    char text[2048];
    FILE *file = tmpfile();
    ASSERT_TRUE(file != NULL);
    option_help(table, OPTION_ON_LINE, file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ASSERT_TRUE(strstr(text, "  -H, --host TEXT         where\n"));
    ASSERT_TRUE(strstr(text, "  -v, --loud              how\n"));
    ASSERT_TRUE(strstr(text, "  -n N                    many\n"));
    ASSERT_TRUE(!strstr(text, "  -H\n"));
}
