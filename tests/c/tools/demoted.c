/* A channel that is demoted has its event: rank 1 receives by single copy, until it forbids itself to read other processes' memory. What comes then is right all the same. */
#include "check.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
enum { BYTES = 1 << 20 };
static int events;
static unsigned long long demoted;

static void on_demotion(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data)
{
    unsigned long long more = 0;
    (void)registration, (void)safety, (void)data;
    if (MPI_T_event_read(event, 0, &more) == MPI_SUCCESS)
        demoted += more;
    events++;
}

static int deny_single_copy(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {LEN(steps), steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void send_one(unsigned char *data, int tag)
{
    fill(data, BYTES, (uint64_t)tag);
    if (check_rank == 0)
        OK(MPI_Send(data, BYTES, MPI_BYTE, 1, tag, MPI_COMM_WORLD));
    memset(data, 0, check_rank == 1 ? BYTES : 0);
    if (check_rank == 1) {
        OK(MPI_Recv(data, BYTES, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        EQ(wrong_at(data, BYTES, (uint64_t)tag), -1);
    }
}

int main(int argc, char **argv)
{
    int provided, at, count, can = 1;
    unsigned long long pulled = 0;
    MPI_T_event_registration demotions;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned char *data = alloc(BYTES);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_init(&argc, &argv);
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("FERRULE_RENDEZVOUS_PULLED", MPI_T_PVAR_CLASS_COUNTER, &at));
    OK(MPI_T_pvar_handle_alloc(session, at, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
    OK(MPI_T_event_get_index("FERRULE_SINGLE_COPY_DEMOTED", &at));
    OK(MPI_T_event_handle_alloc(at, NULL, MPI_INFO_NULL, &demotions));
    OK(MPI_T_event_register_callback(demotions, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, on_demotion));
    send_one(data, 1);
    OK(MPI_T_pvar_read(session, handle, &pulled));
    if (check_rank == 1)
        can = pulled >= 1 && deny_single_copy() == 0;
    OK(MPI_Bcast(&can, 1, MPI_INT, 1, MPI_COMM_WORLD));
    if (!can) {
        OK(MPI_T_finalize());
        return check_skip("no single copy here, or no seccomp");
    }
    EQ(events, 0);
    send_one(data, 2);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    EQ(events, check_rank == 1);
    EQ(demoted, check_rank == 1);
    send_one(data, 3);
    OK(MPI_T_event_handle_free(demotions, NULL, NULL));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return check_done();
}
