/* "Did you mean ...": the nearest of some names to one that does not exist, by edit distance
 * (insert, delete, replace, swap neighbours) with dynamic programming. */
#include <lockstep/extra/suggest.h>

#include <string.h>

enum { MAX_NAME = 48 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int edit_distance(const char *a, const char *b)
{
    int na = (int)strnlen(a, MAX_NAME), nb = (int)strnlen(b, MAX_NAME);
    int d[MAX_NAME + 1][MAX_NAME + 1];
    for (int i = 0; i <= na; i++)
        for (int j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int replace = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(replace, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[na][nb];
}

void lk_suggest_consider(lk_suggestion *s, const char *known)
{
    int distance = edit_distance(s->wanted, known);
    if (strncmp(s->wanted, known, strlen(s->wanted)) == 0 && s->wanted[0])
        distance = least(distance, 1);
    if (!s->best || distance < s->distance) {
        s->best = known;
        s->distance = distance;
    }
}

bool lk_suggest_found(const lk_suggestion *s)
{
    return s->best && s->distance <= 1 + (int)strlen(s->wanted) / 4;
}
