/* Writing the elements of a picture to its file, and the style that gives classes their colours (svg.h).
 * The verb plan has one picture open, and draws on its one thread.
 */
#include "plan/svg.h"

#include <errno.h>

/* Colours of light paper, then those of dark paper that differ. */
static const char style[] =
    "text{font:12px sans-serif;fill:#24292f}\n"
    "text.head{font-size:16px;font-weight:bold}\n"
    "text.sub{font-size:13px;font-weight:bold}\n"
    "text.tick,text.tick-end,text.tick-mid,text.box-mid{font-size:10px}\n"
    "text.tick,text.tick-end,text.tick-mid{fill:#57606a}\n"
    "text.box-mid{fill:#111}\n"
    "text.rank-mid,text.tick-mid,text.box-mid{text-anchor:middle}\n"
    "text.tick-end{text-anchor:end}\n"
    "text.ahead,text.back{font-size:10px}\n"
    "text.ahead{fill:#0a4fa3}\n"
    "text.back{fill:#a8480f}\n"
    ".paper{fill:#fff}\n"
    ".sample{fill:none;stroke:none}\n"
    ".tile{fill:#f3f4f6;stroke:#c3c8cf;stroke-width:1}\n"
    ".own{fill:#bcd7f7;stroke:#8fb4e0;stroke-width:1}\n"
    ".rank{fill:none;stroke:#57606a;stroke-width:1.5}\n"
    ".reads{fill:none;stroke:#0a4fa3;stroke-width:1.5;stroke-dasharray:5 3}\n"
    ".block{stroke:#fff;stroke-opacity:.5}\n"
    ".flow{stroke:#c3c8cf;stroke-width:1.5}\n"
    ".flow-ahead{stroke:#0a4fa3;stroke-width:1.5}\n"
    ".flow-back{stroke:#c9601f;stroke-width:1.2;stroke-dasharray:5 3}\n"
    ".c0{fill:#f0a330}\n.c1{fill:#2fae86}\n.c2{fill:#e07b54}\n.c3{fill:#cf86b3}\n"
    ".c4{fill:#d8cc3a}\n.c5{fill:#5cb5e6}\n.c6{fill:#a58ad6}\n.c7{fill:#b08a4f}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}\n"
    "text.tick,text.tick-end,text.tick-mid{fill:#9da7b3}\n"
    ".paper{fill:#0d1117}\n"
    ".tile{fill:#1b222c;stroke:#3d4652}\n"
    ".own{fill:#1f4373;stroke:#38639b}\n"
    ".rank{stroke:#9da7b3}\n"
    ".reads{stroke:#79b8ff}\n"
    "text.ahead{fill:#79b8ff}\n"
    "text.back{fill:#f0a06a}\n"
    ".block{stroke:#0d1117}\n"
    ".flow{stroke:#3d4652}\n"
    ".flow-ahead{stroke:#79b8ff}\n"
    ".flow-back{stroke:#f0a06a}\n"
    "}\n";

/* Text of XML 1.0: signs of its own as entities, and bytes that it does not allow as "?". */
static void text_put(FILE *to, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '&')
            fputs("&amp;", to);
        else if (*c == '<')
            fputs("&lt;", to);
        else if (*c == '>')
            fputs("&gt;", to);
        else if (*c == '"')
            fputs("&quot;", to);
        else
            fputc(*c < 0x20 || *c == 0x7f ? '?' : *c, to);
    }
}

static void length_put(FILE *to, svg_length v)
{
    int64_t size = v < 0 ? -v : v;
    fprintf(to, "%s%lld", v < 0 ? "-" : "", (long long)(size / SVG_PIXEL));
    if (size % SVG_PIXEL)
        fprintf(to, ".%02lld", (long long)(size % SVG_PIXEL));
}

static void attribute_put(FILE *to, const char *name, svg_length v)
{
    fprintf(to, " %s=\"", name);
    length_put(to, v);
    fputc('"', to);
}

bool svg_open(svg *s, const char *path, svg_length w, svg_length h, const char *title)
{
    s->to = fopen(path, "we");
    if (!s->to)
        return false;
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\"", s->to);
    attribute_put(s->to, "width", w);
    attribute_put(s->to, "height", h);
    fputs(" viewBox=\"0 0 ", s->to);
    length_put(s->to, w);
    fputc(' ', s->to);
    length_put(s->to, h);
    fputs("\">\n<title>", s->to);
    text_put(s->to, title);
    fprintf(s->to, "</title>\n<style type=\"text/css\">\n%s</style>\n", style);
    svg_rect(s, "paper", (svg_place){.w = w, .h = h}, NULL);
    return true;
}

int svg_close(svg *s)
{
    fputs("</svg>\n", s->to);
    bool failed = ferror(s->to);
    if (fclose(s->to) != 0)
        return errno;
    return failed ? EIO : 0;
}

void svg_rect(svg *s, const char *kind, svg_place at, const char *title)
{
    fprintf(s->to, "<rect class=\"%s\"", kind);
    attribute_put(s->to, "x", at.x);
    attribute_put(s->to, "y", at.y);
    attribute_put(s->to, "width", at.w);
    attribute_put(s->to, "height", at.h);
    if (title) {
        fputs("><title>", s->to);
        text_put(s->to, title);
        fputs("</title></rect>\n", s->to);
    } else {
        fputs("/>\n", s->to);
    }
}

void svg_text(svg *s, const char *kind, svg_length x, svg_length y, const char *text)
{
    fprintf(s->to, "<text class=\"%s\"", kind);
    attribute_put(s->to, "x", x);
    attribute_put(s->to, "y", y);
    fputc('>', s->to);
    text_put(s->to, text);
    fputs("</text>\n", s->to);
}

void svg_polygon(svg *s, const char *kind, int n, const svg_length *corner)
{
    fprintf(s->to, "<polygon class=\"%s\" points=\"", kind);
    for (int i = 0; i < 2 * n; i++) {
        if (i > 0)
            fputc(' ', s->to);
        length_put(s->to, corner[i]);
    }
    fputs("\"/>\n", s->to);
}

void svg_line(svg *s, const char *kind, svg_length x, svg_length y, svg_length to_x,
              svg_length to_y)
{
    fprintf(s->to, "<line class=\"%s\"", kind);
    attribute_put(s->to, "x1", x);
    attribute_put(s->to, "y1", y);
    attribute_put(s->to, "x2", to_x);
    attribute_put(s->to, "y2", to_y);
    fputs("/>\n", s->to);
}
