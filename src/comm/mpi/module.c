/* The module of one MPI: the functions that the transport `mpi` needs (mpi_module.h), each one call
 * of MPI.  Compiled against each MPI; mpi_find.c loads it. */
#include "comm/mpi/shared.h"
#include "comm/mpi_module.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(lk__mpi_request), "a request fits");

struct lk__mpi_comm {
    MPI_Comm comm;
};

enum { BLOCK = 1 << 30 };

pthread_mutex_t lk__mpi_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic bool lk_mpi_serial;

static bool mpi_finalized(void)
{
    int yes = 0;
    MPI_Finalized(&yes);
    return yes;
}

static bool mpi_running(void)
{
    int yes = 0;
    MPI_Initialized(&yes);
    return yes && !mpi_finalized();
}

static int mpi_init(bool threads)
{
    int level;
    return MPI_Init_thread(NULL, NULL, threads ? MPI_THREAD_SERIALIZED : MPI_THREAD_FUNNELED,
                           &level);
}

static lk__mpi_threads mpi_threads(void)
{
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level == MPI_THREAD_MULTIPLE     ? LK_MPI_MULTIPLE
           : level == MPI_THREAD_SERIALIZED ? LK_MPI_SERIALIZED
                                            : LK_MPI_FUNNELED;
}

static void mpi_serialize(void)
{
    atomic_store(&lk_mpi_serial, true);
}

static int mpi_finalize(void)
{
    LK_MPI_ALONE();
    return MPI_Finalize();
}

/* Errors of a handle that is none go to the handlers of these two, which end the process. */
static lk__mpi_handle mpi_handle(int fortran_handle)
{
    LK_MPI_ALONE();
    MPI_Comm comm = MPI_Comm_f2c(fortran_handle), own[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    MPI_Errhandler before[2];
    int inter = 0, code = MPI_ERR_COMM;
    for (int i = 0; i < 2; i++) {
        MPI_Comm_get_errhandler(own[i], &before[i]);
        MPI_Comm_set_errhandler(own[i], MPI_ERRORS_RETURN);
    }
    if (comm != MPI_COMM_NULL)
        code = MPI_Comm_test_inter(comm, &inter);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_set_errhandler(own[i], before[i]);
        MPI_Errhandler_free(&before[i]);
    }
    return code != MPI_SUCCESS ? LK_MPI_NO_COMM : inter ? LK_MPI_INTER : LK_MPI_INTRA;
}

static int mpi_comm_dup(bool world, int fortran_handle, lk__mpi_comm **out)
{
    LK_MPI_ALONE();
    MPI_Comm host = world ? MPI_COMM_WORLD : MPI_Comm_f2c(fortran_handle);
    *out = NULL;
    lk__mpi_comm *c = malloc(sizeof *c);
    if (!c)
        return MPI_ERR_NO_MEM;
    int code = MPI_Comm_dup(host, &c->comm);
    if (code != MPI_SUCCESS) {
        free(c);
        return code;
    }
    MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    *out = c;
    return 0;
}

static void mpi_comm_free(lk__mpi_comm *c)
{
    if (!c)
        return;
    LK_MPI_ALONE();
    MPI_Comm_free(&c->comm);
    free(c);
}

static void mpi_comm_place(const lk__mpi_comm *c, int *rank, int *size)
{
    MPI_Comm_rank(c->comm, rank);
    MPI_Comm_size(c->comm, size);
}

static int mpi_comm_nodes(const lk__mpi_comm *c, int *node)
{
    LK_MPI_ALONE();
    MPI_Comm near;
    int rank, lowest;
    MPI_Comm_rank(c->comm, &rank);
    int code = MPI_Comm_split_type(c->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &near);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, near);
    if (code == MPI_SUCCESS)
        code = MPI_Allgather(&lowest, 1, MPI_INT, node, 1, MPI_INT, c->comm);
    MPI_Comm_free(&near);
    return code;
}

/* `bytes` bytes as one element, however many: MPI 3 counts in int. */
static int type_of(int64_t bytes, MPI_Datatype *type)
{
    MPI_Datatype blocks;
    int code = MPI_Type_vector((int)(bytes / BLOCK), BLOCK, BLOCK, MPI_BYTE, &blocks);
    if (code != MPI_SUCCESS)
        return code;
    int lengths[] = {1, (int)(bytes % BLOCK)};
    MPI_Aint at[] = {0, (MPI_Aint)(bytes / BLOCK * BLOCK)};
    code = MPI_Type_create_struct(2, lengths, at, (MPI_Datatype[]){blocks, MPI_BYTE}, type);
    MPI_Type_free(&blocks);
    return code == MPI_SUCCESS ? MPI_Type_commit(type) : code;
}

static int start(const lk__mpi_comm *c, const lk__mpi_part *p, bool send, lk__mpi_request *out)
{
    LK_MPI_ALONE();
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Datatype type = MPI_BYTE;
    int count = (int)p->bytes, code = MPI_SUCCESS;
    if (p->bytes > BLOCK) {
        count = 1;
        code = type_of(p->bytes, &type);
    }
    int rank = p->rank == LK_MPI_ANY ? MPI_ANY_SOURCE : p->rank;
    if (code == MPI_SUCCESS)
        code = send ? MPI_Isend(p->data, count, type, rank, p->tag, c->comm, &r)
                    : MPI_Irecv(p->data, count, type, rank, p->tag, c->comm, &r);
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
    memcpy(out, &r, sizeof r);
    return code; /* the request ends in another function: NOLINT(clang-analyzer-optin.mpi.*) */
}

static int mpi_isend(const lk__mpi_comm *c, const lk__mpi_part *p, lk__mpi_request *out)
{
    return start(c, p, true, out);
}

static int mpi_irecv(const lk__mpi_comm *c, const lk__mpi_part *p, lk__mpi_request *out)
{
    return start(c, p, false, out);
}

static int mpi_test(lk__mpi_request *request, bool *done)
{
    LK_MPI_ALONE();
    MPI_Request r;
    int yes = 0;
    memcpy(&r, request, sizeof r);
    int code = MPI_Test(&r, &yes, MPI_STATUS_IGNORE);
    memcpy(request, &r, sizeof r);
    *done = yes;
    return code;
}

static int mpi_test_some(int n, lk__mpi_request *request, bool *done)
{
    LK_MPI_ALONE();
    MPI_Request r[LK_MPI_SOME];
    MPI_Status status[LK_MPI_SOME];
    int n_done = 0, which[LK_MPI_SOME];
    for (int i = 0; i < n; i++) {
        memcpy(&r[i], &request[i], sizeof r[i]);
        done[i] = false;
    }
    int code = MPI_Testsome(n, r, &n_done, which, status);
    for (int i = 0; i < n; i++)
        memcpy(&request[i], &r[i], sizeof r[i]);
    for (int i = 0; n_done != MPI_UNDEFINED && i < n_done; i++) {
        done[which[i]] = true;
        if (code == MPI_ERR_IN_STATUS && status[i].MPI_ERROR != MPI_SUCCESS)
            code = status[i].MPI_ERROR; /* what went wrong, of the first that did */
    }
    return code;
}

static void mpi_cancel(lk__mpi_request *request)
{
    LK_MPI_ALONE();
    MPI_Request r;
    memcpy(&r, request, sizeof r);
    if (r != MPI_REQUEST_NULL)
        MPI_Cancel(&r);
    memcpy(request, &r, sizeof r);
}

void lk__mpi_error(int code, char text[LK_MPI_TEXT])
{
    LK_MPI_ALONE();
    char full[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (MPI_Error_string(code, full, &n) != MPI_SUCCESS)
        n = 0;
    if (n >= LK_MPI_TEXT)
        n = LK_MPI_TEXT - 1;
    memcpy(text, full, (size_t)n);
    text[n] = '\0';
}

__attribute__((visibility("default"))) extern const lk__mpi lk__mpi_module;

const lk__mpi lk__mpi_module = {.interface = LK_MPI_INTERFACE,
                                .name = LK_MPI_NAME,
                                .running = mpi_running,
                                .finalized = mpi_finalized,
                                .init = mpi_init,
                                .finalize = mpi_finalize,
                                .threads = mpi_threads,
                                .serialize = mpi_serialize,
                                .handle = mpi_handle,
                                .comm_dup = mpi_comm_dup,
                                .comm_free = mpi_comm_free,
                                .comm_place = mpi_comm_place,
                                .comm_nodes = mpi_comm_nodes,
                                .isend = mpi_isend,
                                .irecv = mpi_irecv,
                                .test = mpi_test,
                                .test_some = mpi_test_some,
                                .cancel = mpi_cancel,
                                .error = lk__mpi_error};
