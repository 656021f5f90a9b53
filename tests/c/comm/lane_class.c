/* The info key ferrule_lane_class: values in force by every way to give them, and the order of messages while the class of their communicator changes.
 * Only lanes that are segregated by size have the classes that it asks for. */
#include "check.h"

#define MESSAGES 60
#define LONGEST 20000

static int segregates;

/* The value in force must be this one, "" for none, if lanes are segregated by size. */
static void in_force(MPI_Comm comm, const char *expected)
{
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int len = sizeof value, flag;
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_get_string(info, "ferrule_lane_class", &len, value, &flag));
    STREQ(flag ? value : "", segregates ? expected : "");
    OK(MPI_Info_free(&info));
}

static MPI_Info of_class(const char *name)
{
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "ferrule_lane_class", name));
    return info;
}

/* Messages of one tag and many lengths, in order, although the class of the communicator changes between them. */
static void changes(MPI_Comm comm)
{
    static unsigned char out[MESSAGES][LONGEST], in[MESSAGES][LONGEST];
    static const char *names[] = {"bulk", "latency", "default", "bulk"};
    MPI_Request requests[2 * MESSAGES];
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < MESSAGES; i++) {
        OK(MPI_Irecv(in[i], LONGEST, MPI_BYTE, from, 3, comm, &requests[i]));
    }
    for (int i = 0; i < MESSAGES; i++) {
        if (i % 7 == 3) {
            MPI_Info info = of_class(names[i / 7 % 4]);
            OK(MPI_Comm_set_info(comm, info)); OK(MPI_Info_free(&info));
            in_force(comm, strcmp(names[i / 7 % 4], "default") ? names[i / 7 % 4] : "");
        }
        int bytes = i % 3 == 0 ? LONGEST : 1 + i * 31 % 5000;
        memset(out[i], i + check_rank, bytes);
        OK(MPI_Isend(out[i], bytes, MPI_BYTE, to, 3, comm, &requests[MESSAGES + i]));
    }
    MPI_Status statuses[2 * MESSAGES];
    OK(MPI_Waitall(2 * MESSAGES, requests, statuses));
    for (int i = 0; i < MESSAGES; i++) {
        int bytes, expected = i % 3 == 0 ? LONGEST : 1 + i * 31 % 5000;
        OK(MPI_Get_count(&statuses[i], MPI_BYTE, &bytes));
        EQ(bytes, expected);
        EQ(in[i][0], (i + from) % 256); EQ(in[i][expected - 1], (i + from) % 256);
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    const char *policy = getenv("FERRULE_LANE_POLICY"), *lanes = getenv("FERRULE_LANES");
    segregates = policy ? !strcmp(policy, "segregate") || !strcmp(policy, "auto") : lanes && !strcmp(lanes, "auto");
    MPI_Info bulk = of_class("bulk"), none = of_class("fastest");
    MPI_Comm comm, copy, split;
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, bulk, &comm)); in_force(comm, "bulk");
    OK(MPI_Comm_dup(comm, &copy)); in_force(copy, "bulk"); OK(MPI_Comm_free(&copy));
    MPI_Request request;
    OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, bulk, &copy, &request)); OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    in_force(copy, "bulk"); changes(copy); OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, bulk, &split)); in_force(split, "bulk"); OK(MPI_Comm_free(&split));
    OK(MPI_Comm_set_info(comm, none)); in_force(comm, "");
    changes(comm);
    int sum, one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm)); EQ(sum, check_size);
    OK(MPI_Comm_free(&comm)); OK(MPI_Info_free(&bulk)); OK(MPI_Info_free(&none));
    return check_done();
}
