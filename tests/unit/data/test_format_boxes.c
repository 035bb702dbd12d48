/* Formats by boxes: the bits of whole samples, and memory for the box and a constant, never for a sample.
 *
 * Each case runs in a process of its own, because peaks of memory do not go down, and has its files made by
 * another.  What is compared is read when the peak has been looked at.
 */
#include "data/packed/inflate.h"
#include "data_files.h"
#include "tensors.h"

#include <lockstep/log.h>

#include <sys/wait.h>

enum { COUNT = 2, CLASSES = 5, BOXES = 6, MOST = (3 << 20) / 2 };

/* In a process of its own. */
static void apart(void (*run)(const void *), const void *arg)
{
    fflush(stdout);
    pid_t child = fork();
    ASSERT_TRUE(child >= 0);
    if (child == 0) {
        alarm(TEST_TIMEOUT_S); /* it has no watchdog of its parent */
        run(arg);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    ASSERT_TRUE(waitpid(child, &status, 0) == child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- the samples ---- */

/* How a set lies in files. */
typedef enum kind { NPZ, TFRECORD, NPY, NPY_GZ, IDX, IDX_GZ, RAW, NPZ_DEFLATED } kind;

struct sort {
    kind kind;
    lk_dtype dtype;
    bool voxels; /* a label for each position */
};

static lk_shape shape_of(lk_dtype dtype)
{
    return dtype == LK_U8 ? LK_SHAPE(800, 700, 4) : LK_SHAPE(400, 410, 4);
}

static int64_t value_at(int64_t sample, int64_t place)
{
    uint64_t v = (uint64_t)(sample * 7919 + place * 31 + 17) * 2654435761U;
    return (int64_t)(v >> 16 & 255);
}

static lk_status made_row(void *context, int64_t index, void *const *row)
{
    const lk_dataset_info *info = context;
    lk_dtype dtype = info->field[0].dtype;
    int64_t n;
    ASSERT_OK(lk_shape_count(info->field[0].shape, &n));
    for (int64_t i = 0; row[0] && i < n; i++) {
        int64_t v = value_at(index, i);
        if (dtype == LK_U8)
            ((unsigned char *)row[0])[i] = (unsigned char)v;
        else if (dtype == LK_F32)
            ((float *)row[0])[i] = (float)v / 7;
        else if (dtype == LK_F64)
            ((double *)row[0])[i] = (double)v / 7;
        else
            ((int64_t *)row[0])[i] = v * v * (v % 3 - 1);
    }
    for (int64_t i = 0; row[1] && i < (info->field[1].shape.ndim ? n / 4 : 1); i++)
        ((int64_t *)row[1])[i] = value_at(index, i) % CLASSES;
    return LK_OK;
}

static lk_dataset_info info_of(const struct sort *s)
{
    lk_shape x = shape_of(s->dtype);
    lk_dataset_info info = {
        .name = "made",
        .count = COUNT,
        .classes = CLASSES,
        .n_fields = 2,
        .field = {{.name = "x", .dtype = s->dtype, .shape = x}, {.name = "y", .dtype = LK_I64}}};
    if (s->voxels)
        info.field[1].shape = LK_SHAPE(x.dim[0], x.dim[1]);
    return info;
}

static void shell(const char *format, const char *a, const char *b)
{
    char command[700];
    snprintf(command, sizeof command, "%s '%s'%s%s", format, a, b ? " >" : "", b ? b : "");
    ASSERT_EQ(system(command), 0);
}

/* What stands before the elements of field `f`; returns its bytes. */
static size_t prefix(const struct sort *s, const lk_dataset_info *info, int f, char *out)
{
    const lk_field *field = &info->field[f];
    bool idx = s->kind == IDX || s->kind == IDX_GZ;
    size_t n = 0;
    if (idx) {
        out[0] = out[1] = 0;
        out[2] = 8;
        out[3] = (char)(field->shape.ndim + 1);
        for (int a = -1; a < field->shape.ndim; a++)
            for (int k = 0; k < 4; k++)
                out[8 + 4 * a + k] = (char)((a < 0 ? COUNT : field->shape.dim[a]) >> (24 - 8 * k));
        n = 8 + 4 * (size_t)field->shape.ndim;
    } else if (s->kind != RAW) {
        const char *type = f == 1 || s->dtype == LK_U8 ? "|u1" : s->dtype == LK_F64 ? ">f8" : ">f4";
        char shape[80] = "";
        for (int a = 0; a < field->shape.ndim; a++)
            snprintf(shape + strlen(shape), 20, "%d,", (int)field->shape.dim[a]);
        memset(out, ' ', 128);
        static const char magic[10] = "\x93NUMPY\x01\0\x76";
        memcpy(out, magic, sizeof magic);
        int k = snprintf(out + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,%s)}",
                         type, COUNT, shape);
        out[10 + k] = ' ';
        out[127] = '\n';
        n = 128;
    }
    return n;
}

/* The elements of both fields in files "x" and "y": reals big-endian, labels as bytes. */
static void write_plain(const struct sort *s, lk_dataset_info *info)
{
    for (int f = 0; f < 2; f++) {
        char head[256];
        int64_t n = 1;
        FILE *file = fopen(test_path(f ? "y" : "x"), "wb");
        size_t bytes = prefix(s, info, f, head), size = lk_dtype_size(info->field[f].dtype);
        ASSERT_TRUE(file && fwrite(head, 1, bytes, file) == bytes);
        ASSERT_OK(lk_shape_count(info->field[f].shape, &n));
        char *row[2] = {NULL}, *each;
        row[f] = calloc((size_t)n, size);
        for (int64_t i = 0; i < COUNT; i++) {
            ASSERT_OK(made_row(info, i, (void *const *)row));
            for (each = row[f]; each < row[f] + (size_t)n * size; each += size)
                for (size_t k = 0; k < (f ? 1 : size); k++)
                    putc(each[f ? 0 : size - 1 - k], file);
        }
        free(row[f]);
        ASSERT_EQ(fclose(file), 0);
    }
}

static void put(unsigned char **at, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        *(*at)++ = (unsigned char)(v >> 8 * i);
}

/* The arrays of x and y as members of an archive, deflated by gzip. */
static void write_deflated(void)
{
    FILE *file = fopen(test_path("set"), "wb");
    unsigned char head[2][128], *at, end[64];
    uint32_t place[2];
    size_t bytes[2];
    for (int f = 0; f < 2; f++) {
        size_t n, plain;
        unsigned char *gz = test_read(test_path(f ? "y.gz" : "x.gz"), &n);
        free(test_read(test_path(f ? "y" : "x"), &plain));
        place[f] = (uint32_t)ftell(file);
        at = head[f];
        put(&at, 20, 2);
        put(&at, 0, 2);
        put(&at, 8, 2);
        put(&at, 0, 4);
        memcpy(at, gz + n - 8, 4); /* the CRC-32 */
        at += 4;
        put(&at, n - 18, 4);
        put(&at, plain, 4);
        put(&at, 5, 2);
        put(&at, 0, 2);
        bytes[f] = (size_t)(at - head[f]);
        ASSERT_EQ(fwrite("PK\3\4", 1, 4, file), 4);
        ASSERT_EQ(fwrite(head[f], 1, bytes[f], file), bytes[f]);
        ASSERT_EQ(fwrite(f ? "y.npy" : "x.npy", 1, 5, file), 5);
        ASSERT_EQ(fwrite(gz + 10, 1, n - 18, file), n - 18);
        free(gz);
    }
    long directory = ftell(file);
    for (int f = 0; f < 2; f++) {
        at = end;
        put(&at, 0, 2); /* comment, disk, attributes */
        put(&at, 0, 8);
        put(&at, place[f], 4);
        ASSERT_EQ(fwrite("PK\1\2\x14\0", 1, 6, file), 6);
        ASSERT_EQ(fwrite(head[f], 1, bytes[f], file), bytes[f]);
        ASSERT_EQ(fwrite(end, 1, 14, file), 14);
        ASSERT_EQ(fwrite(f ? "y.npy" : "x.npy", 1, 5, file), 5);
    }
    at = end;
    put(&at, 0x06054b50, 4);
    put(&at, 0, 4);
    put(&at, 2, 2);
    put(&at, 2, 2);
    put(&at, (uint64_t)(ftell(file) - directory), 4);
    put(&at, (uint64_t)directory, 4);
    put(&at, 0, 2);
    ASSERT_EQ(fwrite(end, 1, 22, file), 22);
    ASSERT_EQ(fclose(file), 0);
}

static void make(const void *arg)
{
    const struct sort *s = arg;
    lk_dataset_info info = info_of(s);
    lk_dataset *ds;
    uint64_t hash;
    ASSERT_OK(lk_dataset_new(&info, made_row, NULL, &info, &ds));
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    test_write("hash", &hash, sizeof hash);
    if (s->kind == NPZ || s->kind == TFRECORD)
        ASSERT_OK(lk_dataset_write(ds, s->kind == NPZ ? "npz" : "tfrecord", test_path("set")));
    else
        write_plain(s, &info);
    lk_dataset_free(ds);
    if (s->kind == NPY_GZ || s->kind == IDX_GZ || s->kind == NPZ_DEFLATED)
        for (int f = 0; f < 2; f++)
            shell("gzip -nfk1", test_path(f ? "y" : "x"), NULL);
    if (s->kind == NPZ_DEFLATED)
        write_deflated();
}

/* ---- reading ---- */

static lk_box box_of(const lk_shape *shape, int i)
{
    lk_box box = {.ndim = shape->ndim};
    for (int a = 0; a < shape->ndim; a++) {
        int64_t most = a == 2 ? 4 : 40, n = shape->dim[a] < most ? shape->dim[a] : most;
        box.n[a] = 1 + test_random(n);
        box.first[a] = test_random(shape->dim[a] - box.n[a] + 1);
        if (i == 0) { /* the last corner, of whole channels */
            box.n[a] = n;
            box.first[a] = shape->dim[a] - n;
        }
    }
    return box;
}

struct seen {
    lk_box box;
    int f;
    char *bytes;
    size_t n;
};

static void read_boxes(const lk_dataset *ds, struct seen *seen)
{
    for (int i = 0; i < BOXES; i++) {
        const lk_field *field = &lk_dataset_info_of(ds)->field[i % 2];
        seen[i].f = i % 2;
        seen[i].box = box_of(&field->shape, i / 2);
        int64_t index = i % COUNT;
        lk_shape shape = {.ndim = seen[i].box.ndim + 1, .dim = {1}};
        memcpy(shape.dim + 1, seen[i].box.n, (size_t)seen[i].box.ndim * sizeof shape.dim[0]);
        seen[i].n = (size_t)lk_box_count(&seen[i].box) * lk_dtype_size(field->dtype);
        seen[i].bytes = malloc(seen[i].n);
        lk_tensor *t;
        ASSERT_OK(lk_tensor_wrap(field->dtype, shape, seen[i].bytes, NULL, NULL, &t));
        ASSERT_OK(lk_dataset_read_box(ds, seen[i].f, &seen[i].box, &index, 1, t));
        lk_tensor_free(t);
    }
}

static void compare_boxes(const lk_dataset *ds, struct seen *seen)
{
    for (int i = 0; i < BOXES; i++) {
        const lk_field *field = &lk_dataset_info_of(ds)->field[seen[i].f];
        int64_t elements, at = 0;
        size_t size = lk_dtype_size(field->dtype);
        ASSERT_OK(lk_shape_count(field->shape, &elements));
        char *row = malloc((size_t)elements * size);
        test_sample(ds, field->name, i % COUNT, row);
        lk_box_walk walk = lk_box_start(&seen[i].box, field->shape.dim);
        for (; lk_box_next(&walk); at += walk.n)
            ASSERT_SAME_BITS(seen[i].bytes + (size_t)walk.at * size,
                             row + (size_t)walk.place * size, (size_t)walk.n * size);
        ASSERT_EQ((size_t)at * size, seen[i].n);
        free(row);
        free(seen[i].bytes);
    }
}

static const char loading[] = "batch=2 normalise=standard crop=9 flip=true prefetch=1";

/* The box of a batch, into memory of the test. */
static float *load_box(lk_dataset *ds, const lk_box *box)
{
    lk_loader *l;
    lk_batch b;
    ASSERT_OK(lk_loader_new(ds, loading, 3, &l));
    ASSERT_OK(lk_loader_set_box(l, 0, box));
    if (lk_dataset_info_of(ds)->field[1].shape.ndim >= 2) {
        lk_box y = {.ndim = 2};
        memcpy(y.first, box->first, 2 * sizeof y.first[0]);
        memcpy(y.n, box->n, 2 * sizeof y.n[0]);
        if (lk_dataset_info_of(ds)->field[1].shape.ndim == 3) {
            y.ndim = 3;
            y.first[2] = box->first[2];
            y.n[2] = box->n[2];
        }
        ASSERT_OK(lk_loader_set_box(l, 1, &y));
    }
    for (int epoch = 0; epoch < 4; epoch++)
        ASSERT_OK(lk_loader_read_batch(l, epoch, 0, 0, COUNT, &b));
    size_t n = (size_t)lk_tensor_count(b.x) * sizeof(float);
    float *out = malloc(n);
    memcpy(out, lk_tensor_data(b.x), n);
    lk_loader_free(l);
    return out;
}

static void compare_batch(lk_dataset *ds, const lk_box *box, const float *part)
{
    lk_loader *l;
    lk_batch b;
    ASSERT_OK(lk_loader_new(ds, loading, 3, &l));
    ASSERT_OK(lk_loader_read_batch(l, 3, 0, 0, COUNT, &b));
    lk_shape shape = lk_tensor_shape(b.x);
    lk_box rows = lk_box_whole(shape.ndim, shape.dim);
    memcpy(rows.first + 1, box->first, (size_t)box->ndim * sizeof rows.first[0]);
    memcpy(rows.n + 1, box->n, (size_t)box->ndim * sizeof rows.n[0]);
    lk_box_walk walk = lk_box_start(&rows, shape.dim);
    while (lk_box_next(&walk))
        ASSERT_SAME_BITS(part + walk.at, (const float *)lk_tensor_data(b.x) + walk.place,
                         (size_t)walk.n * sizeof *part);
    lk_loader_free(l);
}

/* Boxes, the hash, measured means and a loader's batches within the memory; then the values. */
static void examine(const char *format, const char *options, const uint64_t *want)
{
    lk_dataset *ds;
    struct seen seen[BOXES];
    uint64_t hash;
    ASSERT_OK(lk_dataset_open(format, options, LK_TRAIN, &ds));
    read_boxes(ds, seen);
    lk_box box = box_of(&lk_dataset_info_of(ds)->field[0].shape, 0);
    float *part = load_box(ds, &box);
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    if (want)
        ASSERT_TRUE(hash == *want);
    int64_t peak = lk_alloc_stats_now().peak_bytes;
    if (peak > MOST)
        TEST_FAIL("%s: %lld bytes at once", options, (long long)peak);
    compare_boxes(ds, seen);
    compare_batch(ds, &box, part);
    free(part);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

static void examine_file(const void *arg)
{
    const struct sort *s = arg;
    static const char *const format[] = {"npz", "tfrecord", "npy", "npy",
                                         "idx", "idx",      "raw", "npz"};
    char options[700];
    bool gz = s->kind == NPY_GZ || s->kind == IDX_GZ, idx = s->kind == IDX || s->kind == IDX_GZ;
    lk_dataset_info info = info_of(s);
    if (s->kind == NPZ || s->kind == TFRECORD || s->kind == NPZ_DEFLATED)
        snprintf(options, sizeof options, "classes=5 path=%s", test_path("set"));
    else
        snprintf(options, sizeof options, "classes=5 %s=%s labels=%s", idx ? "images" : "path",
                 test_path(gz ? "x.gz" : "x"), test_path(gz ? "y.gz" : "y"));
    if (s->kind == RAW)
        snprintf(options + strlen(options), 100, " dtype=f64 order=big shape=400,410,4%s",
                 info.field[1].shape.ndim ? " label_shape=400,410" : "");
    size_t n;
    unsigned char *bytes = test_read(test_path("hash"), &n);
    uint64_t hash;
    memcpy(&hash, bytes, sizeof hash);
    free(bytes);
    examine(format[s->kind], options, &hash);
}

static void run_sorts(const struct sort *s, int n)
{
    test_folder(); /* that of all processes */
    if (TEST_SLOWNESS > 1)
        n = 1;
    for (int i = 0; i < n; i++) {
        apart(make, &s[i]);
        apart(examine_file, &s[i]);
    }
}

TEST(arrays_are_read_by_boxes)
{
    static const struct sort sorts[] = {{NPZ, LK_U8, true},
                                        {NPZ, LK_F64, false},
                                        {NPY, LK_F64, true},
                                        {NPY, LK_F32, false},
                                        {RAW, LK_F64, true}};
    run_sorts(sorts, sizeof sorts / sizeof sorts[0]);
}

TEST(idx_files_are_read_by_boxes)
{
    static const struct sort sort = {IDX, LK_U8, false};
    run_sorts(&sort, 1);
}

TEST(packed_files_are_read_by_boxes)
{
    static const struct sort sorts[] = {
        {IDX_GZ, LK_U8, false}, {NPY_GZ, LK_F32, true}, {NPZ_DEFLATED, LK_F64, true}};
    if (lk__inflate_built())
        run_sorts(sorts, sizeof sorts / sizeof sorts[0]);
}

TEST(records_are_read_by_boxes)
{
    static const struct sort sorts[] = {
        {TFRECORD, LK_U8, false}, {TFRECORD, LK_F32, false}, {TFRECORD, LK_I64, false}};
    run_sorts(sorts, sizeof sorts / sizeof sorts[0]);
}

static void examine_fractal(const void *arg)
{
    examine("fractal", arg, NULL);
}

TEST(fractals_are_made_by_boxes)
{
    apart(examine_fractal, "count=2 test_count=0 shape=80,64,72,1 classes=3");
    apart(examine_fractal, "count=2 test_count=0 shape=700,603,1 classes=3");
}

/* Without a folder for files, what is unpacked is kept in memory. */
static void look_without_room(const void *arg)
{
    lk_dataset *ds;
    char options[400];
    (void)arg;
    lk_log_set_level(LK_LOG_ERROR);
    setenv("TMPDIR", test_path("nowhere"), 1);
    snprintf(options, sizeof options, "classes=5 images=%s labels=%s", test_path("x.gz"),
             test_path("y.gz"));
    ASSERT_OK(lk_dataset_open("idx", options, LK_TRAIN, &ds));
    ASSERT_TRUE(lk_alloc_stats_now().peak_bytes > 4 << 20);
    uint64_t hash, want;
    size_t n;
    unsigned char *bytes = test_read(test_path("hash"), &n);
    memcpy(&want, bytes, sizeof want);
    free(bytes);
    ASSERT_OK(lk_dataset_hash(ds, &hash));
    ASSERT_TRUE(hash == want);
    lk_dataset_free(ds);
    ASSERT_EQ(lk_alloc_stats_now().live_blocks, 0);
}

TEST(a_full_disk_is_no_reason_to_fail)
{
    static const struct sort sort = {IDX_GZ, LK_U8, false};
    if (!lk__inflate_built())
        return;
    test_folder();
    apart(make, &sort);
    apart(look_without_room, NULL);
}
