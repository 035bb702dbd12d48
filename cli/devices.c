/* The list of devices: number, name and processors of each. */
#include "devices.h"

#include "report.h"
#include "verb.h"

#include <lockstep/device.h>

#include <stdio.h>
#include <stdlib.h>

enum { PROCESSORS_TEXT = 5 * LK_MAX_PROCESSORS }; /* "1000,1002,...": room for any set */

static const report_column columns[] = {{"device", "device", 0},
                                        {"name", "name", -1},
                                        {"kind", NULL, 0},
                                        {"processors", "processors", -1}};

static void rows_print(const lk_device *list, int n, bool json)
{
    static char text[PROCESSORS_TEXT];
    report r;
    report_keep(&r, columns, 4, json);
    for (int i = 0; i < n; i++) {
        lk_device_processors_text(&list[i], text, sizeof text);
        report_row(&r, (report_cell[]){cell_int(i), cell_text(list[i].name), cell_text("cpu"),
                                       cell_text(text)});
    }
    report_end(&r);
}

int devices_print(const char *command, bool json)
{
    int n, room;
    if (lk_devices_available(NULL, 0, &room) != LK_OK)
        return verb_refuse("%s: %s", command, lk_error_message());
    lk_device *list = calloc((size_t)room, sizeof *list);
    if (!list) {
        fprintf(stderr, "error: %s: no memory for a list of %d devices\n", command, room);
        return LK_EXIT_FAILED;
    }
    int status = LK_EXIT_DONE;
    if (lk_devices_available(list, room, &n) == LK_OK)
        rows_print(list, n < room ? n : room, json);
    else
        status = verb_failed();
    free(list);
    return status;
}
