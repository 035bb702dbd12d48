/* The report: all that was given is shown, escaped; nothing is loaded; curves lie where they belong. */
#include "data_files.h"
#include "faults.h"
#include "io/report/report.h"

#include <ctype.h>

static const double epochs[] = {1, 2, 3}, falling[] = {2, 1.5, 1};
static const lk_curve curves[] = {{"training", epochs, falling, 3}};
static const lk_chart loss = {"loss", "epoch", curves, 1};

/* The page of a report, which the test frees. */
static char *page_of(const lk_report *report)
{
    size_t n;
    const char *path = test_path("report.html");
    ASSERT_OK(lk_report_write(path, report));
    char *page = (char *)test_read(path, &n);
    page[n] = '\0';
    ASSERT_EQ(strlen(page), n);
    return page;
}

static int count_of(const char *page, const char *text)
{
    int n = 0;
    for (const char *at = page; (at = strstr(at, text)); at++)
        n++;
    return n;
}

static void expect(const char *page, const char *text)
{
    if (!strstr(page, text))
        TEST_FAIL("the page lacks %s", text);
}

/* Elements that must be closed are, in the right order. */
static void expect_balance(const char *page)
{
    static const char *const alone[] = {"meta", "!DOCTYPE"};
    char open[32][16];
    int depth = 0;
    const char *at = strstr(page, "</style>") + 8;
    strcpy(open[depth++], "html");
    strcpy(open[depth++], "head");
    for (at = strchr(at, '<'); at; at = strchr(at + 1, '<')) {
        bool close = at[1] == '/';
        char name[16] = "";
        int n = 0;
        for (const char *c = at + 1 + close; isalnum((unsigned char)*c) || *c == '!'; c++)
            if (n < 15)
                name[n++] = *c;
        const char *end = strchr(at, '>');
        ASSERT_TRUE(end && n > 0);
        if (end[-1] == '/' || strcmp(name, alone[0]) == 0 || strcmp(name, alone[1]) == 0)
            continue;
        if (!close) {
            ASSERT_TRUE(depth < 32);
            strcpy(open[depth++], name);
        } else if (depth == 0 || strcmp(open[--depth], name) != 0) {
            TEST_FAIL("</%s> closes <%s>", name, depth >= 0 ? open[depth] : "");
        }
    }
    ASSERT_EQ(depth, 0);
}

TEST(all_that_is_given_is_shown)
{
    lk_kv headline[] = {lk_kv_real("accuracy", 0.912345), lk_kv_int("epochs", 20)};
    lk_kv facts[] = {lk_kv_text("optimizer", "sgd"), lk_kv_int("samples", 60000),
                     lk_kv_json_value("list", "[1,2]"), lk_kv_real("lost", (double)NAN)};
    lk_model *m;
    ASSERT_OK(lk_model_new(&m));
    ASSERT_OK(lk_model_add(m, "residual", "layers=linear(units=1200),linear(units=30)"));
    ASSERT_OK(lk_model_add(m, "linear", "units=3"));
    lk_model_spec spec = {.in = {LK_F32, LK_SHAPE(30)}, .seed = 1};
    ASSERT_OK(lk_model_build(m, &spec));
    ASSERT_OK(lk_model_hold(m, NULL));
    lk_report report = {.title = "a title",
                        .subtitle = "a subtitle",
                        .headline = headline,
                        .n_headline = 2,
                        .chart = &loss,
                        .n_charts = 1,
                        .model = m,
                        .confusion = "[[9,1],[0,30]]",
                        .metadata = facts,
                        .n_metadata = 4,
                        .experiment = "seed: 1\n"};
    char *page = page_of(&report);
    expect_balance(page);
    expect(page, "<title>a title</title>");
    expect(page, "<h1>a title</h1><p>a subtitle</p>");
    expect(page, "<b>0.9123</b><span>accuracy</span>");
    expect(page, "<b>20</b><span>epochs</span>");
    expect(page, "</i>training <em>1</em>");
    expect(page, ">residual1.linear2</td><td>linear</td><td class=\"shape\">1200</td>"
                 "<td class=\"shape\">30</td><td class=\"number\">36\xe2\x80\xaf"
                 "030</td>");
    expect(page, "<td class=\"number\">73\xe2\x80\xaf"
                 "323</td></tr>\n</table>"); /* 37200 + 36030 + 93 */
    expect(page,
           "<td class=\"hit full\" style=\"--share:0.900\">9</td>"
           "<td class=\"miss\" style=\"--share:0.100\">1</td><td class=\"recall\">90.0 %</td>");
    expect(page, "<tr><th scope=\"row\">optimizer</th><td>sgd</td></tr>");
    expect(page, "<td>60\xe2\x80\xaf"
                 "000</td>");
    expect(page, "<td>[1,2]</td>");
    expect(page, "<td>not finite</td>");
    expect(page, "<pre>seed: 1\n</pre>");
    free(page);
    lk_model_free(m);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(what_is_not_given_leaves_no_trace)
{
    char *page = page_of(&(lk_report){.title = "t"});
    expect_balance(page);
    static const char *const parts[] = {"<section", "<table", "<svg", "<pre", "<h2"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ASSERT_EQ(count_of(page, parts[i]), 0);
    free(page);
}

TEST(texts_from_outside_are_escaped)
{
    static const char evil[] = "<script>alert('&\"')</script>\x1b[31m\xff";
    static const char want[] = "&#60;script&#62;alert(&#39;&#38;&#34;&#39;)&#60;/script&#62;"
                               "\xef\xbf\xbd[31m\xef\xbf\xbd";
    lk_kv fact = lk_kv_text(evil, evil), json = lk_kv_json_value(evil, evil);
    lk_curve curve = {evil, epochs, falling, 3};
    lk_chart chart = {evil, evil, &curve, 1};
    lk_report report = {.title = evil,
                        .subtitle = evil,
                        .headline = &fact,
                        .n_headline = 1,
                        .chart = &chart,
                        .n_charts = 1,
                        .metadata = &json,
                        .n_metadata = 1,
                        .experiment = evil};
    char *page = page_of(&report);
    expect_balance(page);
    ASSERT_EQ(count_of(page, "<script"), 0);
    ASSERT_EQ(count_of(page, "\x1b"), 0);
    /* The head, a headline, the chart, its three dots, a fact, the experiment. */
    ASSERT_EQ(count_of(page, want), 3 + 2 + 4 + 3 * 2 + 2 + 1);
    free(page);
}

TEST(nothing_is_loaded_from_elsewhere)
{
    char *page = page_of(&(lk_report){.title = "t", .chart = &loss, .n_charts = 1});
    static const char *const ways[] = {"http:",   "https:",  "//",    "src=",    "href", "url(",
                                       "@import", "<script", "<link", "<iframe", " on"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strstr(page, ways[i]))
            TEST_FAIL("the page has %s", ways[i]);
    expect(page, "content=\"default-src 'none'; style-src 'unsafe-inline'\"");
    free(page);
}

/* The SVG of a chart with one curve, which the test frees. */
static char *chart_of(const double *x, const double *y, int64_t n)
{
    lk__out o = {0};
    lk_curve curve = {"k", x, y, n};
    lk__report_chart(&o, &(lk_chart){"t", "x", &curve, 1});
    ASSERT_OK(o.st);
    char *text = strdup(o.text);
    lk_free(o.text);
    return text;
}

TEST(curves_and_ticks_lie_where_they_belong)
{
    char *svg = chart_of(epochs, falling, 3);
    /* From the left to the right edge, from the top to the bottom: 1 to 3 and 1 to 2. */
    expect(svg, "<path class=\"line\" d=\"M58.0 12.0L342.0 135.0L626.0 258.0\"/>");
    expect(svg, "x=\"342.0\" y=\"277\" text-anchor=\"middle\">2</text>");
    expect(svg, "y=\"262.0\" text-anchor=\"end\">1</text>");
    expect(svg, "y=\"212.8\" text-anchor=\"end\">1.2</text>");
    expect(svg, "y=\"16.0\" text-anchor=\"end\">2</text>");
    expect(svg, "<title>k, x 2: 1.5</title>");
    ASSERT_EQ(count_of(svg, "text-anchor=\"end\""), 6);
    ASSERT_EQ(count_of(svg, "<circle"), 3);
    free(svg);
}

TEST(curves_are_broken_where_they_are_not_finite)
{
    static const double x[] = {0, 1, 2, 3, 4}, y[] = {0, 1, (double)NAN, 1, (double)INFINITY};
    char *svg = chart_of(x, y, 5);
    expect(svg, "d=\"M58.0 258.0L247.3 12.0M626.0 12.0\""); /* x ends at the last that is drawn */
    ASSERT_EQ(count_of(svg, "<circle"), 3);
    expect(svg, "<em>not finite</em>");
    free(svg);
}

TEST(strange_values_make_a_chart_all_the_same)
{
    static const double values[] = {0,    1,     -1,    1e-320,       5e-324,           1e-31,
                                    1e30, -1e30, 1e308, -1e308,       (double)INFINITY, (double)NAN,
                                    0.1,  1e9,   1e15,  123456789.123};
    enum { N = sizeof values / sizeof values[0] };
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int flat = 0; flat < 2; flat++) {
                const double a[] = {values[i], values[k]}, line[] = {1, 2};
                char *svg = flat ? chart_of(a, line, 2) : chart_of(line, a, 2);
                int ticks = count_of(svg, "text-anchor");
                ASSERT_TRUE(ticks >= 4 && ticks < 40);
                ASSERT_TRUE(!strstr(svg, "nan") && !strstr(svg, "inf") && !strstr(svg, "null"));
                free(svg);
            }
    char *svg = chart_of(NULL, NULL, 0);
    ASSERT_EQ(count_of(svg, "<circle"), 0);
    free(svg);
}

TEST(long_curves_are_thinned_to_their_last_point)
{
    enum { N = 100001 };
    double *x = malloc(N * sizeof *x);
    for (int i = 0; i < N; i++)
        x[i] = i;
    char *svg = chart_of(x, x, N);
    ASSERT_TRUE(strlen(svg) < 40000);
    expect(svg, "L626.0 12.0\"/>");
    free(svg);
    free(x);
}

TEST(tables_that_are_none_are_refused)
{
    static const char *const wrong[] = {"",        "[",      "[[1,2]]", "[[1],[2]]", "[[1,2],[3]]",
                                        "[[1.5]]", "[[-1]]", "[[1]]x",  "{}",        "[1]",
                                        "[[]]"};
    const char *path = test_path("none.html");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ASSERT_FAILS(lk_report_write(path, &(lk_report){.title = "t", .confusion = wrong[i]}),
                     LK_EIO, "confusion: offset ");
    ASSERT_TRUE(access(path, F_OK) != 0);
    char *page = page_of(&(lk_report){.title = "t", .confusion = "[[0,0],[0,0]]"});
    expect(page, "--share:0.000\">0</td><td class=\"recall\"></td>");
    free(page);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(misuse_is_refused)
{
    const char *path = test_path("misuse.html");
    lk_curve nameless = {NULL, epochs, falling, 3}, empty = {"k", NULL, NULL, 3};
    lk_chart wrong[] = {{NULL, "x", curves, 1},
                        {"t", "x", NULL, 1},
                        {"t", "x", &nameless, 1},
                        {"t", "x", &empty, 1}};
    ASSERT_FAILS(lk_report_write(NULL, &(lk_report){.title = "t"}), LK_EINVAL, "NULL");
    ASSERT_FAILS(lk_report_write(path, &(lk_report){.title = NULL}), LK_EINVAL, "title is NULL");
    for (int i = 0; i < 4; i++)
        ASSERT_FAILS(
            lk_report_write(path, &(lk_report){.title = "t", .chart = &wrong[i], .n_charts = 1}),
            LK_EINVAL, i < 2 ? "chart 0 has no title" : "curve 0 of chart \"t\"");
    ASSERT_FAILS(lk_report_write(path, &(lk_report){.title = "t", .n_metadata = 1}), LK_EINVAL,
                 "kv is NULL");
    ASSERT_FAILS(lk_report_write("/nowhere/r", &(lk_report){.title = "t"}), LK_EIO, "/nowhere/r");
}

static lk_status write_report(void)
{
    lk_kv fact = lk_kv_int("n", 1);
    return lk_report_write(test_path("faults"), &(lk_report){.title = "t",
                                                             .chart = &loss,
                                                             .n_charts = 1,
                                                             .metadata = &fact,
                                                             .n_metadata = 1,
                                                             .confusion = "[[1,2],[3,4]]"});
}

TEST(every_allocation_may_fail)
{
    ASSERT_TRUE(test_every_allocation_fails(write_report) > 4);
}
