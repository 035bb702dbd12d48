/* Whether a call to the disk is to fail. */
#ifndef LK_IO_STORAGE_FAULT_H
#define LK_IO_STORAGE_FAULT_H

#include "io/storage.h"

/** Count a call; whether it is to fail, and with which errno (0: it is to be short, not to fail). */
bool lk__storage_fails(lk__storage_call call, int *error);

#endif /* LK_IO_STORAGE_FAULT_H */
