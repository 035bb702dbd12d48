/* Make a folder of checkpoints for tests of the command, or mend the check of a MANIFEST whose text a
 * test has changed:
 *
 *     checkpoint_make FOLDER STEP...        of a model with the tensors "w" and "b"
 *     checkpoint_make --check MANIFEST
 */
#include <lockstep/checkpoint.h>
#include <lockstep/extra/crc32c.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last line has the check of all before it. */
static int check_mend(const char *path)
{
    char text[65536] = "";
    FILE *file = fopen(path, "r+");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    char *check = strstr(text, "\"check\":\"");
    if (!check || n == sizeof text - 1)
        return 1;
    rewind(file);
    *check = '\0';
    fprintf(file, "%s\"check\":\"%08" PRIx32 "\"}\n", text, lk_crc32c(0, text, strlen(text)));
    return fclose(file) == 0 ? 0 : 1;
}

static lk_status save(lk_checkpoint_dir *c, int64_t step)
{
    float w[6], b[2] = {(float)step, -1};
    for (int i = 0; i < 6; i++)
        w[i] = (float)i / 2;
    lk_state_tensor tensor[] = {{"w", LK_F32, LK_DIMS(2, 3), w, NULL, NULL},
                                {"b", LK_F32, LK_DIMS(2), b, NULL, NULL}};
    lk_state_number number = lk_state_f64("loss", 0.5);
    lk_state state = {.step = step,
                      .hash = 0xfeed,
                      .tensor = tensor,
                      .n_tensors = 2,
                      .number = &number,
                      .n_numbers = 1};
    return LK_TRACE(lk_checkpoint_dir_save(c, &state));
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--check") == 0)
        return check_mend(argv[2]);
    lk_checkpoint_dir *c = NULL;
    lk_checkpoint_dir_options options = {.identity = 0xabc, .part_bytes = 24};
    lk_status st = lk_checkpoint_dir_open(NULL, argv[1], &options, &c);
    for (int i = 2; st == LK_OK && i < argc; i++)
        st = save(c, strtoll(argv[i], NULL, 10));
    lk_checkpoint_dir_close(c);
    lk_error_print(stderr);
    return st == LK_OK ? 0 : 1;
}
