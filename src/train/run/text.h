/* The text of a file that a run reads for its report. */
#ifndef LK_TRAIN_TEXT_H
#define LK_TRAIN_TEXT_H

/** All of it, to be freed with lk_free(); NULL if it cannot be read, or if there is no path. */
char *lk__file_text(const char *path);

#endif /* LK_TRAIN_TEXT_H */
