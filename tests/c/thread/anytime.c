/* What any thread may call at any time, whatever the level of thread support (11.4): infos, error codes, error handlers, sessions
 * and inquiries from four threads, while the main thread sends, receives and uses such objects itself. Argument: rounds. */
#include "check.h"
#include <pthread.h>
enum { THREADS = 4 };
static int rounds = 20000, stop;

static int has(MPI_Info info, const char *key, const char *want)
{
    char value[32];
    int length = sizeof value, flag = 0;
    OK(MPI_Info_get_string(info, key, &length, value, &flag));
    return flag && !strcmp(value, want);
}

static void use_infos(int me)
{
    char key[16], value[16];
    int keys;
    MPI_Info info, copy;
    OK(MPI_Info_create(&info));
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "k%d", i);
        snprintf(value, sizeof value, "%d.%d", me, i);
        OK(MPI_Info_set(info, key, value));
    }
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_delete(info, "k1"));
    OK(MPI_Info_get_nkeys(info, &keys));
    EQ(keys, 3);
    OK(MPI_Info_get_nkeys(copy, &keys));
    EQ(keys, 4);
    CHECK(has(copy, "k3", value), "thread %d has another's value", me);
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&copy));
}

static void use_errors(int me)
{
    int class, code, found, length, flag, version, subversion;
    char want[16], text[MPI_MAX_ERROR_STRING];
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    snprintf(want, sizeof want, "%d", me);
    OK(MPI_Add_error_string(code, want));
    OK(MPI_Error_class(code, &found));
    EQ(found, class);
    OK(MPI_Error_string(code, text, &length));
    STREQ(text, want);
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_class(class));
    OK(MPI_Initialized(&flag));
    EQ(flag, 1);
    OK(MPI_Get_version(&version, &subversion));
    EQ(version, 5);
}

static void on_error(MPI_Session *session, int *code, ...) { (void)session; (void)code; }

static void use_sessions(void)
{
    MPI_Errhandler handler;
    MPI_Session session;
    OK(MPI_Session_create_errhandler(on_error, &handler));
    OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Session_finalize(&session));
}

static void *worker(void *x)
{
    int me = (int)(intptr_t)x;
    for (int i = 0; i < rounds; i++) {
        use_infos(me);
        use_errors(me);
        if (i % 512 == 511)
            use_sessions();
    }
    __atomic_fetch_add(&stop, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void on_comm_error(MPI_Comm *comm, int *code, ...) { (void)comm; (void)code; }

int main(int argc, char **argv)
{
    int provided, sum = 0, expected = 0;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    check_world();
    if (argc > 1)
        rounds = atoi(argv[1]);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i);
    for (int i = 0; __atomic_load_n(&stop, __ATOMIC_ACQUIRE) < THREADS; i++) {
        int got = -1;
        MPI_Request request;
        OK(MPI_Irecv(&got, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Send(&i, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        EQ(got, i);
        FAILS(MPI_ERR_RANK, MPI_Send(&i, 1, MPI_INT, check_size, 1, MPI_COMM_WORLD));
        if (i % 8 == 0) {
            MPI_Errhandler handler;
            MPI_Info info;
            OK(MPI_Comm_create_errhandler(on_comm_error, &handler));
            OK(MPI_Errhandler_free(&handler));
            OK(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
            OK(MPI_Info_free(&info));
        }
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(MPI_Query_thread(&provided));
    EQ(provided, MPI_THREAD_FUNNELED);
    OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < check_size; i++)
        expected += i;
    EQ(sum, expected);
    return check_done();
}
