/* The tool interface: initialisation before MPI and after it, control and performance variables, enumerations, categories, and every error.
 * What holds for any library is checked under the oracle, too; names are ours. */
#include "check.h"

static void texts(void)
{
    char name[256], part[6];
    int len = sizeof name, verbosity, bind, scope;
    MPI_Datatype type;
    MPI_T_enum values;
    OK(MPI_T_cvar_get_info(0, name, &len, &verbosity, &type, &values, NULL, NULL, &bind, &scope));
    EQ(len, (int)strlen(name) + 1);
    int all = len;
    len = 0; /* only the length */
    OK(MPI_T_cvar_get_info(0, name, &len, NULL, &type, &values, NULL, NULL, NULL, NULL));
    EQ(len, all);
    len = 100;
    OK(MPI_T_cvar_get_info(0, NULL, &len, NULL, &type, &values, NULL, NULL, NULL, NULL));
    EQ(len, all);
    STRICT(OK(MPI_T_cvar_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL))); /* the oracle follows the null of the type */
    len = sizeof part; /* cut */
    OK(MPI_T_cvar_get_info(0, part, &len, NULL, &type, &values, NULL, NULL, NULL, NULL));
    EQ(len, sizeof part);
    CHECK(!strncmp(part, name, 5) && !part[5]);
}

/* Every variable says what it is, is found by its name, and can be read if it needs no object. */
static void cvars(void)
{
    int count, at;
    OK(MPI_T_cvar_get_num(&count));
    CHECK(count > 10);
    for (int i = 0; i < count; i++) {
        char name[256] = "", desc[2048] = "", value[4096];
        int nlen = sizeof name, dlen = sizeof desc, verbosity, bind, scope, elements = 0;
        MPI_Datatype type;
        MPI_T_enum values;
        MPI_T_cvar_handle handle;
        OK(MPI_T_cvar_get_info(i, name, &nlen, &verbosity, &type, &values, desc, &dlen, &bind, &scope));
        OK(MPI_T_cvar_get_index(name, &at));
        EQ(at, i);
        CHECK(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
        if (bind != MPI_T_BIND_NO_OBJECT)
            continue;
        OK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &elements));
        CHECK(elements >= 1 && elements <= (int)sizeof value);
        OK(MPI_T_cvar_read(handle, value));
        OK(MPI_T_cvar_handle_free(&handle));
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
    }
    MPI_Datatype type;
    MPI_T_enum values;
    STRICT({ /* the oracle crashes */
        EQ(MPI_T_cvar_get_info(count, NULL, NULL, NULL, &type, &values, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
        EQ(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, &type, &values, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    });
    EQ(MPI_T_cvar_get_index("no such variable", &at), MPI_T_ERR_INVALID_NAME);
}

static void categories(void)
{
    int count, at, stamp, seen = 0, all;
    OK(MPI_T_category_get_num(&count));
    OK(MPI_T_category_changed(&stamp));
    OK(MPI_T_cvar_get_num(&all));
    for (int i = 0; i < count; i++) {
        char name[256] = "", desc[1024] = "";
        int nlen = sizeof name, dlen = sizeof desc, nc, np, ns, ne, list[512];
        OK(MPI_T_category_get_info(i, name, &nlen, desc, &dlen, &nc, &np, &ns));
        OK(MPI_T_category_get_index(name, &at));
        EQ(at, i);
        OK(MPI_T_category_get_num_events(i, &ne));
        OK(MPI_T_category_get_cvars(i, nc, list));
        for (int k = 0; k < nc; k++)
            CHECK(list[k] >= 0 && list[k] < all);
        seen += nc;
        OK(MPI_T_category_get_pvars(i, np, list));
        OK(MPI_T_category_get_categories(i, ns, list));
        for (int k = 0; k < ns; k++)
            CHECK(list[k] >= 0 && list[k] < count && list[k] != i);
        STRICT(OK(MPI_T_category_get_events(i, ne, list)));
    }
    STRICT(EQ(seen, all)); /* each setting is in one */
    EQ(MPI_T_category_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    EQ(MPI_T_category_get_index("no such category", &at), MPI_T_ERR_INVALID_NAME);
}

/* A setting that nobody has read can be written before MPI_Init, and is in force then. */
static void set_before(const char *name, unsigned long long value)
{
    int at, count;
    MPI_T_cvar_handle handle;
    unsigned long long back = 0, silly = ~0ull;
    OK(MPI_T_cvar_get_index(name, &at));
    OK(MPI_T_cvar_handle_alloc(at, NULL, &handle, &count));
    EQ(count, 1);
    EQ(MPI_T_cvar_write(handle, &silly), MPI_T_ERR_INVALID);
    OK(MPI_T_cvar_write(handle, &value));
    OK(MPI_T_cvar_read(handle, &back));
    EQ(back, value);
    OK(MPI_T_cvar_handle_free(&handle));
}

static void refused_now(const char *name)
{
    int at, count;
    MPI_T_cvar_handle handle, stale;
    unsigned long long value = 8;
    OK(MPI_T_cvar_get_index(name, &at));
    OK(MPI_T_cvar_handle_alloc(at, NULL, &handle, &count));
    EQ(MPI_T_cvar_write(handle, &value), MPI_T_ERR_CVAR_SET_NOT_NOW);
    OK(MPI_T_cvar_read(handle, &value));
    EQ(value, 7);
    stale = handle;
    OK(MPI_T_cvar_handle_free(&handle));
    EQ(MPI_T_cvar_read(stale, &value), MPI_T_ERR_INVALID_HANDLE);
    EQ(MPI_T_cvar_handle_free(&stale), MPI_T_ERR_INVALID_HANDLE);
}

static void enumeration(void)
{
    int at, num, value;
    MPI_T_enum switch_;
    char name[32];
    int len = sizeof name;
    OK(MPI_T_cvar_get_index("FERRULE_WHY", &at));
    OK(MPI_T_cvar_get_info(at, NULL, NULL, NULL, NULL, &switch_, NULL, NULL, NULL, NULL));
    CHECK(switch_ != MPI_T_ENUM_NULL);
    OK(MPI_T_enum_get_info(switch_, &num, name, &len));
    EQ(num, 2);
    len = sizeof name;
    OK(MPI_T_enum_get_item(switch_, 1, &value, name, &len));
    EQ(value, 1);
    STREQ(name, "on");
    EQ(MPI_T_enum_get_item(switch_, 2, &value, NULL, NULL), MPI_T_ERR_INVALID_ITEM);
    EQ(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &num, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
}

static int pvar(const char *name, int class)
{
    int at = -1;
    OK(MPI_T_pvar_get_index(name, class, &at));
    return at;
}

/* Counters count what happens, queues tell what waits. */
static void pvars(void)
{
    int count, class, readonly, continuous, atomic, bind, elements, x = 0;
    unsigned long long n = 99;
    MPI_Comm comm = MPI_COMM_SELF;
    MPI_T_pvar_session session, other;
    MPI_T_pvar_handle unexpected, queue, foreign;
    OK(MPI_T_pvar_get_num(&count));
    OK(MPI_T_pvar_get_info(pvar("FERRULE_UNEXPECTED", MPI_T_PVAR_CLASS_COUNTER), NULL, NULL, NULL, &class, NULL, NULL, NULL, NULL,
                           &bind, &readonly, &continuous, &atomic));
    CHECK(class == MPI_T_PVAR_CLASS_COUNTER && bind == MPI_T_BIND_NO_OBJECT && !readonly && !continuous && atomic);
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_session_create(&other));
    OK(MPI_T_pvar_handle_alloc(session, pvar("FERRULE_UNEXPECTED", MPI_T_PVAR_CLASS_COUNTER), NULL, &unexpected, &elements));
    OK(MPI_T_pvar_handle_alloc(session, pvar("FERRULE_UNEXPECTED_QUEUE_LENGTH", MPI_T_PVAR_CLASS_LEVEL), &comm, &queue, &elements));
    EQ(elements, 1);
    OK(MPI_T_pvar_read(session, unexpected, &n));
    EQ(n, 0);
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_read(session, queue, &n));
    EQ(n, 0);
    int flag = 0;
    MPI_Request rq[2];
    for (int i = 0; i < 2; i++)
        OK(MPI_Isend(&x, 1, MPI_INT, 0, 4 + i, MPI_COMM_SELF, &rq[i]));
    while (!flag)
        OK(MPI_Iprobe(0, 5, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    OK(MPI_T_pvar_read(session, queue, &n));
    EQ(n, 2);
    for (int i = 0; i < 2; i++)
        OK(MPI_Recv(&x, 1, MPI_INT, 0, 4 + i, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(2, rq, MPI_STATUSES_IGNORE));
    OK(MPI_T_pvar_read(session, queue, &n));
    EQ(n, 0);
    OK(MPI_T_pvar_stop(session, unexpected));
    OK(MPI_T_pvar_readreset(session, unexpected, &n));
    CHECK(n >= 2, "%llu", n); /* another rank may be ahead */
    OK(MPI_T_pvar_read(session, unexpected, &n));
    EQ(n, 0);
    n = 12;
    OK(MPI_T_pvar_write(session, unexpected, &n));
    OK(MPI_T_pvar_read(session, unexpected, &n));
    EQ(n, 12);
    EQ(MPI_T_pvar_start(session, queue), MPI_T_ERR_PVAR_NO_STARTSTOP);
    EQ(MPI_T_pvar_write(session, queue, &n), MPI_T_ERR_PVAR_NO_WRITE);
    EQ(MPI_T_pvar_reset(session, queue), MPI_T_ERR_PVAR_NO_WRITE);
    EQ(MPI_T_pvar_readreset(session, queue, &n), MPI_T_ERR_PVAR_NO_ATOMIC);
    EQ(MPI_T_pvar_read(other, queue, &n), MPI_T_ERR_INVALID_HANDLE);
    EQ(MPI_T_pvar_handle_alloc(session, count, NULL, &foreign, &elements), MPI_T_ERR_INVALID_INDEX);
    EQ(MPI_T_pvar_handle_alloc(session, pvar("FERRULE_PENDING_SENDS", MPI_T_PVAR_CLASS_LEVEL), NULL, &foreign, &elements), MPI_T_ERR_INVALID_HANDLE);
    EQ(MPI_T_pvar_get_index("FERRULE_UNEXPECTED", MPI_T_PVAR_CLASS_TIMER, &bind), MPI_T_ERR_INVALID_NAME);
    OK(MPI_T_pvar_handle_free(session, &queue));
    CHECK(queue == MPI_T_PVAR_HANDLE_NULL);
    OK(MPI_T_pvar_session_free(&session));
    CHECK(session == MPI_T_PVAR_SESSION_NULL);
    EQ(MPI_T_pvar_session_free(&session), MPI_T_ERR_INVALID_SESSION);
    OK(MPI_T_pvar_session_free(&other));
}

int main(int argc, char **argv)
{
    int provided = -1, n;
    STRICT(EQ(MPI_T_cvar_get_num(&n), MPI_T_ERR_NOT_INITIALIZED));
    STRICT(EQ(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED));
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    texts();
    cvars();
    STRICT(set_before("FERRULE_CELLS", 7));
    check_init(&argc, &argv);
    cvars();
    categories();
    OK(MPI_T_finalize());
    OK(MPI_T_cvar_get_num(&n)); /* once more than ended */
    STRICT({
        OK(MPI_Barrier(MPI_COMM_WORLD));
        refused_now("FERRULE_CELLS");
        enumeration();
        pvars();
    });
    int failed = check_done();
    cvars(); /* after MPI_Finalize */
    OK(MPI_T_finalize());
    STRICT(EQ(MPI_T_cvar_get_num(&n), MPI_T_ERR_NOT_INITIALIZED));
    return failed || check_failed;
}
