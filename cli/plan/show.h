/* Printing an lk_plan as text (text.c) or JSON (json.c): for the verb plan, on one rank. */
#ifndef LK_CLI_PLAN_SHOW_H
#define LK_CLI_PLAN_SHOW_H

#include <lockstep/extra/plan.h>

#include <stdbool.h>

enum { PLAN_NOTE = 512 };

/** Print a plan of the layout `word`, with n notes besides its own: as tables, or as one JSON object. */
void plan_show_text(const lk_plan *plan, const char *word, char (*more)[PLAN_NOTE], int n);
void plan_show_json(const lk_plan *plan, const char *word, char (*more)[PLAN_NOTE], int n);

/** What a reader may wonder about, as sentences: the next one from layer `*at` on, which begins with 0 and
 * moves; false: there is none. */
bool plan_note_next(const lk_plan *plan, int64_t *at, char out[PLAN_NOTE]);

/** Whether samples, and features, are cut over ranks; the number of a rank of this one's grid among all; and
 * how many there are. */
bool plan_has_space(const lk_plan *plan);
bool plan_has_features(const lk_plan *plan);
int plan_rank(const lk_plan *plan, int rank_of_grid);
int plan_ranks(const lk_plan *plan);

/** Fetch number i of a layer, of x in forward, and of dy and of filters in backward, and the bytes of a position:
 * of x and dy those of all samples; NULL: there is none. */
enum { PLAN_FETCHES = 3 };
const lk_fetch *plan_fetch(const lk_layer_plan *layer, int number, int64_t *bytes);

/** Bytes that a layer gets by all of them. */
int64_t plan_fetched(const lk_layer_plan *layer);

/** Words for enums, and for fetches. */
extern const char *const plan_reach_name[],
    *const plan_domain_name[], *const plan_when_name[], *const plan_kind_name[],
                                                            *const plan_fetch_name[];

#endif /* LK_CLI_PLAN_SHOW_H */
