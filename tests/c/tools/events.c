/* Events of the tool interface: collectives of one communicator begin and end, a counter moves; elements, time, source, levels of
 * safety, dropped events, the end of a registration, errors. */
#include "check.h"
static int begun, ended, counted, dropped, freed, wrong;
static char function[64];
static MPI_Count last_time;

static void on_collective(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data)
{
    int size = 0, source = -1;
    char copy[128];
    MPI_Count now = 0;
    wrong += MPI_T_event_read(event, 0, function) != MPI_SUCCESS || MPI_T_event_read(event, 3, &size) != MPI_SUCCESS;
    wrong += MPI_T_event_read(event, 4, &size) != MPI_T_ERR_INVALID_INDEX;
    wrong += MPI_T_event_copy(event, copy) != MPI_SUCCESS || strcmp(copy, function) != 0;
    wrong += MPI_T_event_get_source(event, &source) != MPI_SUCCESS || source != 0;
    wrong += MPI_T_event_get_timestamp(event, &now) != MPI_SUCCESS || now < last_time;
    wrong += size != check_size || safety != MPI_T_CB_REQUIRE_NONE || registration == NULL;
    last_time = now;
    ++*(int *)data;
    if (data == &begun && begun == 2) /* a function for events may call MPI; what happens meanwhile is dropped */
        wrong += MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS;
}

static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety, void *data)
{
    (void)registration, (void)safety, (void)data;
    wrong += source != 0;
    dropped += (int)count;
}

static void on_count(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data)
{
    unsigned long long more = 0;
    (void)registration;
    wrong += MPI_T_event_read(event, 0, &more) != MPI_SUCCESS || safety != MPI_T_CB_REQUIRE_THREAD_SAFE;
    *(int *)data += (int)more;
}

static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data)
{
    (void)registration, (void)safety;
    ++*(int *)data;
}

static MPI_T_event_registration allocate(const char *name, void *object)
{
    int at = -1;
    MPI_T_event_registration r = NULL;
    OK(MPI_T_event_get_index(name, &at));
    OK(MPI_T_event_handle_alloc(at, object, MPI_INFO_NULL, &r));
    return r;
}

static void describe(void)
{
    int count, at;
    OK(MPI_T_event_get_num(&count));
    CHECK(count > 2);
    for (int i = 0; i < count; i++) {
        char name[128], desc[512];
        int nlen = sizeof name, dlen = sizeof desc, verbosity, elements = 8, bind, items;
        MPI_Datatype types[8];
        MPI_Aint places[8];
        MPI_T_enum names;
        MPI_Info info = MPI_INFO_NULL;
        OK(MPI_T_event_get_info(i, name, &nlen, &verbosity, types, places, &elements, &names, &info, desc, &dlen, &bind));
        CHECK(elements >= 1 && elements <= 8 && places[0] == 0);
        OK(MPI_T_event_get_index(name, &at));
        EQ(at, i);
        OK(MPI_T_enum_get_info(names, &items, NULL, NULL));
        EQ(items, elements);
        OK(MPI_Info_free(&info));
    }
    EQ(MPI_T_event_get_index("no such event", &at), MPI_T_ERR_INVALID_NAME);
    EQ(MPI_T_event_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
}

static void sources(void)
{
    int count, len = 0;
    MPI_Count ticks, most, t0, t1;
    MPI_T_source_order order;
    OK(MPI_T_source_get_num(&count));
    EQ(count, 2);
    for (int i = 0; i < count; i++) {
        len = 0;
        OK(MPI_T_source_get_info(i, NULL, &len, NULL, NULL, &order, &ticks, &most, NULL));
        EQ(order, MPI_T_SOURCE_ORDERED);
        CHECK(len > 1 && ticks > 0 && most > 0);
        OK(MPI_T_source_get_timestamp(i, &t0));
        OK(MPI_T_source_get_timestamp(i, &t1));
        CHECK(t1 >= t0);
    }
    EQ(MPI_T_source_get_timestamp(count, &t0), MPI_T_ERR_INVALID_INDEX);
}

int main(int argc, char **argv)
{
    int provided, x = 1, y = 0;
    MPI_T_event_registration begin, end, count;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_init(&argc, &argv);
    describe();
    sources();
    MPI_Comm world = MPI_COMM_WORLD, copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    begin = allocate("FERRULE_COLLECTIVE_BEGIN", &world);
    end = allocate("FERRULE_COLLECTIVE_END", &world);
    count = allocate("FERRULE_UNEXPECTED", NULL);
    OK(MPI_T_event_register_callback(begin, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &begun, on_collective));
    OK(MPI_T_event_set_dropped_handler(begin, on_dropped));
    OK(MPI_T_event_register_callback(end, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &ended, on_collective));
    OK(MPI_T_event_register_callback(count, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, &counted, on_count));
    OK(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    STREQ(function, "MPI_Allreduce");
    EQ(begun, 1);
    EQ(ended, 1);
    OK(MPI_Barrier(copy)); /* another communicator */
    EQ(begun, 1);
    OK(MPI_Bcast(&x, 1, MPI_INT, 0, MPI_COMM_WORLD)); /* its function calls a barrier */
    EQ(begun, 2);
    EQ(ended, 2);
    MPI_Request rq;
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    EQ(begun, 3);
    EQ(ended, 3);
    EQ(dropped, 1);
    int before = counted, flag = 0;
    for (int i = 0; i < 3; i++)
        OK(MPI_Isend(&x, 1, MPI_INT, 0, i, MPI_COMM_SELF, &rq));
    while (!flag)
        OK(MPI_Iprobe(0, 2, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++)
        OK(MPI_Recv(&y, 1, MPI_INT, 0, i, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(0, 2, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    CHECK(counted - before >= 3, "%d", counted - before);
    MPI_T_event_registration stale = begin;
    OK(MPI_T_event_handle_free(begin, &freed, on_free));
    EQ(freed, 1);
    before = begun;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    EQ(begun, before);
    EQ(MPI_T_event_handle_free(stale, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    EQ(MPI_T_event_register_callback(stale, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, on_count), MPI_T_ERR_INVALID_HANDLE);
    EQ(MPI_T_event_register_callback(end, (MPI_T_cb_safety)7, MPI_INFO_NULL, NULL, on_count), MPI_T_ERR_INVALID);
    OK(MPI_T_event_handle_free(end, &freed, on_free));
    OK(MPI_T_event_handle_free(count, NULL, NULL));
    EQ(freed, 2);
    EQ(wrong, 0);
    OK(MPI_Comm_free(&copy));
    OK(MPI_T_finalize());
    return check_done();
}
