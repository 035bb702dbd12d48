/* The table of a model's layers in a report: what each takes and gives, and its parameters.  report.c
 * calls it, on rank 0 at the end of a run. */
#include "io/report/report.h"

static void put_io(lk__out *o, lk_tensor_type io)
{
    lk__out_put(o, "<td class=\"shape\">");
    for (int i = 0; i < io.shape.ndim; i++)
        lk__out_format(o, "%s%lld", i ? " × " : "", (long long)io.shape.dim[i]);
    lk__out_put(o, io.shape.ndim == 0 ? "1</td>" : "</td>");
}

lk_status lk__report_layers(lk__out *o, const lk_model *model)
{
    int64_t params = 0;
    lk__out_put(o, "<div class=\"wide\"><table><tr><th>layer</th><th>type</th><th>takes</th>"
                   "<th>gives</th><th class=\"number\">parameters</th></tr>\n");
    for (int64_t i = 0; i < lk_model_layers(model); i++) {
        lk_layer_info unit;
        LK_TRY(lk_model_layer(model, i, &unit));
        params += unit.params;
        lk__out_format(o, "<tr><td style=\"padding-left:%dem\">", 1 + 2 * unit.depth);
        lk__out_html(o, unit.name);
        lk__out_put(o, "</td><td>");
        lk__out_html(o, unit.type);
        lk__out_put(o, "</td>");
        put_io(o, unit.in);
        put_io(o, unit.out);
        lk__out_put(o, "<td class=\"number\">");
        if (unit.params > 0)
            lk__out_count(o, unit.params);
        lk__out_put(o, "</td></tr>\n");
    }
    lk__out_put(o,
                "<tr class=\"sum\"><td>all</td><td></td><td></td><td></td><td class=\"number\">");
    lk__out_count(o, params);
    lk__out_put(o, "</td></tr>\n</table></div>\n");
    return LK_OK;
}
