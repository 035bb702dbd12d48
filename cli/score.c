/* Loss and metrics of a set as JSON. */
#include "score.h"

#include "report.h"

#include <stdio.h>

void score_json(const lk_trainer *trainer, const char *set, const lk_score *score, bool comma)
{
    const char *name;
    bool lower;
    printf("%s\"%s\":{\"loss\":", comma ? "," : "", set);
    report_json_real(score->loss);
    for (int i = 0; (name = lk_trainer_metric(trainer, i, &lower)); i++) {
        printf(",\"%s\":", name);
        if (score->json[i])
            fputs(score->json[i], stdout);
        else
            report_json_real(score->value[i]);
    }
    putchar('}');
}
