/* lk__yaml_events: the text is checked, then libyaml's events are given one by one, with their
 * positions.  See yaml_events.h. */
#ifdef LK_HAVE_YAML
#    include "config/yaml_events.h"

#    include "base/mark.h"

lk__yaml_pos lk__yaml_events_place(const lk__yaml_events *e, yaml_mark_t mark)
{
    return (lk__yaml_pos){e->name, (int64_t)mark.line + 1, (int64_t)mark.column + 1};
}

/* Where byte number `offset` stands; columns count characters. */
static lk__yaml_pos place_of_byte(const lk__yaml_events *e, size_t offset)
{
    lk__yaml_pos at = {e->name, 1, 1};
    for (size_t i = 0; i < offset; i++) {
        if (e->bytes[i] == '\n') {
            at.line++;
            at.column = 1;
        } else if ((e->bytes[i] & 0xc0) != 0x80) {
            at.column++;
        }
    }
    return at;
}

static lk_status parser_failed(const lk__yaml_events *e)
{
    const yaml_parser_t *p = &e->parser;
    const char *problem = p->problem ? p->problem : "unknown problem";
    LK_CHECK(p->error != YAML_MEMORY_ERROR, LK_ENOMEM, "no memory to read %s", e->name);
    if (p->error == YAML_READER_ERROR) {
        lk__yaml_pos at = place_of_byte(e, p->problem_offset);
        return LK_RAISE_AT(&at, "not valid UTF-8 text: %s", problem);
    }
    lk__yaml_pos at = lk__yaml_events_place(e, p->problem_mark);
    return LK_RAISE_AT(&at, "not valid YAML: %s%s%s", problem, p->context ? " " : "",
                       p->context ? p->context : "");
}

lk_status lk__yaml_events_open(const char *name, const void *bytes, size_t n, lk__yaml_events *out)
{
    LK_CHECK(n <= LK_YAML_SIZE, LK_EINVAL, "%s: more than %d bytes", name, LK_YAML_SIZE);
    int mark = lk__mark_bytes(bytes, n);
    LK_CHECK(mark >= 0, LK_EINVAL, "%s:1:1: the text is UTF-16 or UTF-32: save it as UTF-8", name);
    out->name = name;
    out->bytes = (const unsigned char *)bytes + mark;
    LK_CHECK(yaml_parser_initialize(&out->parser), LK_ENOMEM, "no memory to read %s", name);
    yaml_parser_set_encoding(&out->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&out->parser, out->bytes, n - (size_t)mark);
    return LK_OK;
}

lk_status lk__yaml_events_each(lk__yaml_events *e, lk__yaml_event_fn *take, void *arg)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&e->parser, &event))
            return parser_failed(e);
        more = event.type != YAML_STREAM_END_EVENT;
        lk_status st = take(arg, &event);
        yaml_event_delete(&event);
        LK_TRY(st);
    }
    return LK_OK;
}

void lk__yaml_events_close(lk__yaml_events *e)
{
    yaml_parser_delete(&e->parser);
}

#else
typedef int lk__no_yaml_events; /* a file is not empty */
#endif
