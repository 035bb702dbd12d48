/* Reading a small text file, such as the experiment or earlier metrics, for the report of a run.
 * page.c and curves.c call it on rank 0. */
#ifndef LK_TRAIN_TEXT_H
#define LK_TRAIN_TEXT_H

/** All of it, to be freed with lk_free(); NULL if it cannot be read, or if there is no path. */
char *lk__file_text(const char *path);

#endif /* LK_TRAIN_TEXT_H */
