/* Modes: `b:4x3`, read and written.
 *
 *     mode  = letter | [letter ":"] size { "x" size }        at most LK_MAX_TIERS sizes
 *     size  = "1" ... "1000000", no leading zero
 */
#include "base/fpenv.h"

#include <lockstep/topology.h>

#include <stdio.h>
#include <string.h>

static const struct {
    char letter;
    bool canonical;
    const char *summary;
} letters[] = {
#define X(code, letter, canonical, summary) {letter, canonical, summary},
    LK_TIER_ALGORITHM_MAP(X)
#undef X
};

char lk_tier_algorithm_letter(lk_tier_algorithm letter)
{
    if ((unsigned)letter >= LK_N_TIER_ALGORITHMS)
        return '?';
    return letters[letter].letter;
}

bool lk_tier_algorithm_is_canonical(lk_tier_algorithm letter)
{
    return (unsigned)letter < LK_N_TIER_ALGORITHMS && letters[letter].canonical;
}

const char *lk_tier_algorithm_summary(lk_tier_algorithm letter)
{
    return (unsigned)letter < LK_N_TIER_ALGORITHMS ? letters[letter].summary : "?";
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Read one size at `*at`, and move behind it. */
static lk_status size_parse(const char *text, const char **at, int number, int *out)
{
    long long value = 0;
    const char *from = *at, *p = from;
    for (; is_digit(*p); p++)
        if (value <= LK_MAX_TIER_SIZE)
            value = 10 * value + (*p - '0');
    int where = (int)(from - text) + 1;
    LK_CHECK(p > from, LK_EINVAL, "mode \"%.64s\": a number is missing at character %d; say b:4x3",
             text, where);
    LK_CHECK(value >= 1 && value <= LK_MAX_TIER_SIZE && *from != '0', LK_EINVAL,
             "mode \"%.64s\": dimension %d is %.*s; it must be from 1 to %d", text, number,
             (int)(p - from < 24 ? p - from : 24), from, LK_MAX_TIER_SIZE);
    *out = (int)value;
    *at = p;
    return LK_OK;
}

static lk_status letter_parse(const char *text, const char **at, lk_tier_algorithm *out)
{
    for (int i = 0; i < LK_N_TIER_ALGORITHMS; i++)
        if (letters[i].letter == **at) {
            *out = (lk_tier_algorithm)i;
            ++*at;
            return LK_OK;
        }
    return LK_RAISE(LK_EINVAL, "mode \"%.64s\": no algorithm \"%.1s\"; the letters are b n r m c p",
                    text, *at);
}

lk_status lk_tier_spec_parse(const char *text, lk_tier_spec *out)
{
    LK_CHECK(text && out, LK_EINVAL, "%s is NULL", text ? "out" : "text");
    lk_tier_spec mode = {.algorithm = LK_TIER_BEST};
    const char *p = text;
    if (!is_digit(*p)) {
        LK_CHECK(*p, LK_EINVAL, "mode \"\": it is empty; say b:4x3");
        LK_TRY(letter_parse(text, &p, &mode.algorithm));
        if (*p == '\0') {
            *out = mode;
            return LK_OK;
        }
        LK_CHECK(*p == ':', LK_EINVAL,
                 "mode \"%.64s\": a colon is missing at character 2; say b:4x3", text);
        p++;
    }
    for (int n = 1;; n++) {
        int size = 0;
        LK_TRY(size_parse(text, &p, n, &size));
        LK_CHECK(n <= LK_MAX_TIERS, LK_EINVAL, "mode \"%.64s\": more than %d dimensions", text,
                 LK_MAX_TIERS);
        mode.size[mode.n_tiers++] = size;
        if (*p == '\0')
            break;
        LK_CHECK(*p == 'x', LK_EINVAL,
                 "mode \"%.64s\": \"%.1s\" at character %d; dimensions are written 4x3", text, p,
                 (int)(p - text) + 1);
        p++;
    }
    *out = mode;
    return LK_OK;
}

/* 4x3; whatever a mode holds that was not read from a text. */
static int sizes_text(const lk_tier_spec *mode, char *out, int room)
{
    int n = 0;
    out[0] = '\0';
    for (int i = 0; i < mode->n_tiers && i < LK_MAX_TIERS && n < room; i++)
        n += snprintf(out + n, (size_t)(room - n), "%s%d", i ? "x" : "", mode->size[i]);
    return n < room ? n : room - 1;
}

int lk_tier_spec_text(const lk_tier_spec *mode, char *out)
{
    out[0] = lk_tier_algorithm_letter(mode->algorithm);
    if (mode->n_tiers == 0) {
        out[1] = '\0';
        return 1;
    }
    out[1] = ':';
    return 2 + sizes_text(mode, out + 2, LK_TIER_SPEC_TEXT - 2);
}

lk_status lk_tier_spec_fit(const lk_tier_spec *mode, int size)
{
    LK_FP_GUARD();
    LK_CHECK(mode, LK_EINVAL, "mode is NULL");
    LK_CHECK(mode->n_tiers >= 0 && mode->n_tiers <= LK_MAX_TIERS, LK_EINVAL,
             "a mode of %d dimensions", mode->n_tiers);
    if (mode->n_tiers == 0)
        return LK_OK;
    double places = 1; /* exact up to 2^53, and never too large */
    for (int i = 0; i < mode->n_tiers; i++) {
        LK_CHECK(mode->size[i] >= 1, LK_EINVAL, "dimension %d of a mode is %d", i + 1,
                 mode->size[i]);
        places *= mode->size[i];
    }
    char sizes[LK_TIER_SPEC_TEXT], text[LK_TIER_SPEC_TEXT];
    sizes_text(mode, sizes, sizeof sizes);
    lk_tier_spec_text(mode, text);
    LK_CHECK(places == size, LK_ESHAPE,
             "mode %s: the dimensions %s hold %.15g ranks, but there are %d", text, sizes, places,
             size);
    return LK_OK;
}
