/* Pictures as SVG 1.1: shapes and texts, one element a line.
 *
 * A verb opens a file, gives shapes with a class each, and closes it; the classes are those of the style
 * in svg.c, which knows light and dark paper.  There are no scripts, and nothing is loaded from elsewhere.
 * Lengths are hundredths of a pixel, as integers, so that a picture has the same bytes everywhere.
 */
#ifndef LK_CLI_SVG_H
#define LK_CLI_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef int64_t svg_length;

#define SVG_PIXEL INT64_C(100)

typedef struct svg {
    FILE *to;
} svg;

typedef struct svg_place {
    svg_length x, y, w, h;
} svg_place;

/** Begin a picture of w x h with a title.  False: `path` cannot be written, errno says why. */
bool svg_open(svg *s, const char *path, svg_length w, svg_length h, const char *title);

/** End it.  Returns 0, or the errno of what could not be written. */
int svg_close(svg *s);

/** A rectangle; `title` is shown for it on request, NULL: none. */
void svg_rect(svg *s, const char *kind, svg_place at, const char *title);

/** A line of text, its baseline at y.  A kind that ends in "mid" is centred at x, one in "end" ends there. */
void svg_text(svg *s, const char *kind, svg_length x, svg_length y, const char *text);

/** A polygon of n corners, x before y. */
void svg_polygon(svg *s, const char *kind, int n, const svg_length *corner);

/** A line from x, y. */
void svg_line(svg *s, const char *kind, svg_length x, svg_length y, svg_length to_x,
              svg_length to_y);

#endif /* LK_CLI_SVG_H */
