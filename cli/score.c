/* Printing the loss and metrics of an evaluated set, as text or JSON, on stdout: for the verbs
 * train (JSON alone) and eval. */
#include "score.h"

#include "report.h"

#include <stdio.h>
#include <string.h>

void score_json(const lk_trainer *trainer, const char *set, const lk_eval *score, bool comma)
{
    const char *name;
    bool lower;
    printf("%s\"%s\":{\"loss\":", comma ? "," : "", set);
    report_json_real(score->loss);
    if (lk_trainer_loss(trainer, 1)) {
        for (int i = 0; (name = lk_trainer_loss(trainer, i)); i++) {
            printf("%s\"%s\":", i == 0 ? ",\"losses\":{" : ",", name);
            report_json_real(score->losses[i]);
        }
        putchar('}');
    }
    for (int i = 0; (name = lk_trainer_metric(trainer, i, &lower)); i++) {
        printf(",\"%s\":", name);
        if (score->json[i])
            fputs(score->json[i], stdout);
        else
            report_json_real(score->value[i]);
    }
    putchar('}');
}

/* ---- text ---- */

/* How many digits the longest number of a table has. */
static int longest_number(const char *json)
{
    size_t most = 1;
    for (const char *at = json; *at; at++) {
        size_t n = strspn(at, "0123456789");
        most = n > most ? n : most;
    }
    return (int)most;
}

/* The first line of a table: the numbers of its columns. */
static void print_columns(const char *json, int width)
{
    int columns = 1;
    for (const char *at = json; *at && *at != ']'; at++)
        columns += *at == ',';
    printf("%*s", width, "");
    for (int k = 0; k < columns; k++)
        printf(" %*d", width, k);
}

/* A table of whole numbers, [[1,0],[2,3]], with the numbers of its rows and columns. */
static void print_table(const char *name, const char *json)
{
    int row = 0, width = longest_number(json) + 1;
    printf("\n%s: rows are labels, columns what they were taken for\n", name);
    print_columns(json, width);
    for (const char *at = json; *at;) {
        int n = (int)strspn(at, "0123456789");
        if (*at == '[' && at[1] != '[')
            printf("\n%*d", width, row++);
        if (n > 0)
            printf(" %*.*s", width, n, at);
        at += n > 0 ? n : 1;
    }
    putchar('\n');
}

void score_print(const lk_trainer *trainer, const lk_eval *score)
{
    const char *name;
    bool lower;
    printf("%-20s %lld\n%-20s %.6f\n", "samples", (long long)score->samples, "loss",
           report_plain(score->loss));
    for (int i = 0; lk_trainer_loss(trainer, 1) && (name = lk_trainer_loss(trainer, i)); i++)
        printf("  %-18s %.6f\n", name, report_plain(score->losses[i]));
    for (int i = 0; (name = lk_trainer_metric(trainer, i, &lower)); i++)
        if (lk_trainer_metric_is_number(trainer, i))
            printf("%-20s %.6f\n", name, report_plain(score->value[i]));
    for (int i = 0; (name = lk_trainer_metric(trainer, i, &lower)); i++)
        if (!lk_trainer_metric_is_number(trainer, i))
            print_table(name, score->json[i]);
}
