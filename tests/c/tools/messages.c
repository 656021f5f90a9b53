/* Messages as the tool interface shows them: an event for each that is sent, unexpected or matched, and for each choice of a protocol, with its elements; counters by
 * protocol, also of what goes by the short paths otherwise; nothing of other communicators, and nothing any more when nobody asks. */
#include "check.h"
enum { SENT, UNEXPECTED, MATCHED, CHOSEN, KINDS, TAGS = 64, SMALL = 100 };
static const char *NAMES[KINDS] = {"FERRULE_MESSAGE_SENT", "FERRULE_MESSAGE_UNEXPECTED", "FERRULE_MESSAGE_MATCHED", "FERRULE_PROTOCOL_CHOSEN"};
static const int SIZES[] = {0, 8, 2000, 3000, 60000, 100000, 500000, 3000000};
/* What events have told of the program's own messages, by kind and tag. */
static struct { int count, peer; unsigned long long bytes; char how[64]; } seen[KINDS][TAGS];
static int wrong, calls, internal_events, dropped, send_within = -1;
static MPI_Count last_time[KINDS];
static unsigned char *in, *out;

static void on_message(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data)
{
    int kind = (int)((const char **)data - NAMES), peer = -1, tag = -1, internal = -1, source = -1;
    unsigned long long bytes = 0;
    char how[64] = "", all[128];
    MPI_Count time = 0;
    (void)registration, (void)safety;
    wrong += MPI_T_event_read(event, 0, how) != MPI_SUCCESS || MPI_T_event_read(event, 1, &bytes) != MPI_SUCCESS;
    wrong += MPI_T_event_read(event, 2, &peer) != MPI_SUCCESS || MPI_T_event_read(event, 3, &tag) != MPI_SUCCESS;
    wrong += MPI_T_event_read(event, 4, &internal) != MPI_SUCCESS || MPI_T_event_read(event, 5, &internal) == MPI_SUCCESS;
    wrong += MPI_T_event_copy(event, all) != MPI_SUCCESS || strcmp(all, how) != 0 || memcmp(all + 64, &bytes, 8) != 0;
    wrong += MPI_T_event_get_source(event, &source) != MPI_SUCCESS || source != 1;
    wrong += MPI_T_event_get_timestamp(event, &time) != MPI_SUCCESS || time < last_time[kind];
    last_time[kind] = time;
    calls++;
    if (internal) {
        internal_events++;
        return;
    }
    wrong += tag < 0 || tag >= TAGS;
    if (tag >= 0 && tag < TAGS) {
        seen[kind][tag].count++;
        seen[kind][tag].peer = peer;
        seen[kind][tag].bytes = bytes;
        memcpy(seen[kind][tag].how, how, sizeof how);
    }
    if (tag == send_within) { /* a function for events may send; what happens meanwhile is dropped */
        send_within = -1;
        wrong += MPI_Sendrecv(in, 8, MPI_BYTE, 0, 1, out, 8, MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    }
}

static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety, void *data)
{
    (void)registration, (void)safety, (void)data;
    wrong += source != 1;
    dropped += (int)count;
}

static MPI_T_event_registration listen_to(int kind, MPI_Comm *comm)
{
    int at = -1;
    MPI_T_event_registration r = NULL;
    OK(MPI_T_event_get_index(NAMES[kind], &at));
    OK(MPI_T_event_handle_alloc(at, comm, MPI_INFO_NULL, &r));
    OK(MPI_T_event_register_callback(r, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &NAMES[kind], on_message));
    OK(MPI_T_event_set_dropped_handler(r, on_dropped));
    return r;
}

static void poll(void)
{
    int flag;
    for (int i = 0; i < 3; i++)
        OK(MPI_Iprobe(MPI_ANY_SOURCE, TAGS, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
}

static unsigned long long value_of(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long n = 0;
    OK(MPI_T_pvar_read(session, handle, &n));
    return n;
}

static MPI_T_pvar_handle counter(MPI_T_pvar_session session, const char *name)
{
    int at = -1, count;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &at));
    OK(MPI_T_pvar_handle_alloc(session, at, NULL, &handle, &count));
    return handle;
}

/* What one message to the next rank must have told at both ends. */
static void check_message(int tag, int bytes, int late)
{
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    poll();
    EQ(seen[SENT][tag].count, 1);
    EQ(seen[SENT][tag].bytes, bytes);
    EQ(seen[SENT][tag].peer, next);
    EQ(seen[MATCHED][tag].count, 1);
    EQ(seen[MATCHED][tag].bytes, bytes);
    EQ(seen[MATCHED][tag].peer, before);
    if (late)
        EQ(seen[UNEXPECTED][tag].count, 1);
    else
        CHECK(seen[UNEXPECTED][tag].count == 0, "the receive of tag %d was posted ahead", tag);
    /* Once as the sender; as the receiver of what was offered once more, or twice if it was pulled after all. */
    int offered = !strcmp(seen[MATCHED][tag].how, "rendezvous");
    CHECK(seen[CHOSEN][tag].count == 1 + offered || (offered && seen[CHOSEN][tag].count == 3), "%d choices for %d bytes", seen[CHOSEN][tag].count, bytes);
    if (bytes >= 3000000 && check_size > 1)
        CHECK(offered, "%d bytes went by %s", bytes, seen[SENT][tag].how);
    if (bytes == 8 && getenv("FERRULE_PULL_MIN") == NULL)
        CHECK(!offered, "8 bytes were offered");
}

static void exchange(MPI_Comm comm, int tag, int bytes, int late)
{
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size, flag = 0;
    MPI_Request rq[2];
    fill(in, (size_t)bytes, (uint64_t)tag);
    memset(out, 0, (size_t)bytes);
    if (!late)
        OK(MPI_Irecv(out, bytes, MPI_BYTE, before, tag, comm, &rq[1]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Isend(in, bytes, MPI_BYTE, next, tag, comm, &rq[0]));
    while (late && !flag)
        OK(MPI_Iprobe(before, tag, comm, &flag, MPI_STATUS_IGNORE));
    if (late)
        OK(MPI_Irecv(out, bytes, MPI_BYTE, before, tag, comm, &rq[1]));
    OK(MPI_Waitall(2, rq, MPI_STATUSES_IGNORE));
    EQ(wrong_at(out, (size_t)bytes, (uint64_t)tag), -1);
}

/* Small messages by calls that take the short paths otherwise: each is counted, and each has its events. */
static void short_ones(MPI_Comm comm, MPI_T_pvar_session session)
{
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size, x = 0, tag = 40;
    MPI_T_pvar_handle sent = counter(session, "FERRULE_SENT_EAGER"), sent_bytes = counter(session, "FERRULE_SENT_EAGER_BYTES");
    MPI_T_pvar_handle got = counter(session, "FERRULE_RECEIVED_EAGER"), got_bytes = counter(session, "FERRULE_RECEIVED_EAGER_BYTES");
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    poll();
    unsigned long long before_sent = value_of(session, sent), before_got = value_of(session, got);
    unsigned long long before_bytes = value_of(session, sent_bytes) + value_of(session, got_bytes);
    MPI_Request rq;
    for (int i = 0; i < SMALL; i++) {
        if (check_size == 1 || i % 2) {
            OK(MPI_Irecv(&x, 1, MPI_INT, before, tag, comm, &rq));
            OK(MPI_Send(&i, 1, MPI_INT, next, tag, comm));
            OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Send(&i, 1, MPI_INT, next, tag, comm));
            OK(MPI_Recv(&x, 1, MPI_INT, before, tag, comm, MPI_STATUS_IGNORE));
        }
        EQ(x, i);
    }
    poll();
    EQ(seen[SENT][tag].count, SMALL);
    EQ(seen[MATCHED][tag].count, SMALL);
    EQ(value_of(session, sent) - before_sent, SMALL);
    EQ(value_of(session, got) - before_got, SMALL);
    EQ(value_of(session, sent_bytes) + value_of(session, got_bytes) - before_bytes, 2 * SMALL * (int)sizeof(int));
    OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
    before_sent = value_of(session, sent);
    exchange(comm, 41, 4, 0);
    EQ(value_of(session, sent), before_sent);
}

int main(int argc, char **argv)
{
    int provided, tag = 0, is_small = getenv("FERRULE_SHM_EAGER_MAX") == NULL;
    MPI_T_event_registration kinds[KINDS];
    MPI_T_pvar_session session;
    MPI_Comm comm, other;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    check_init(&argc, &argv);
    in = alloc(3000000);
    out = alloc(3000000);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    exchange(comm, 50, 8, 0); /* nobody listens yet */
    poll();
    EQ(calls, 0);
    for (int k = 0; k < KINDS; k++)
        kinds[k] = listen_to(k, &comm);
    for (int late = 0; late < 2; late++)
        for (int i = 0; i < LEN(SIZES); i++, tag++) {
            exchange(comm, tag, SIZES[i], late);
            check_message(tag, SIZES[i], late);
        }
    int before = calls;
    exchange(other, 51, 8, 1);
    poll();
    EQ(calls, before);
    EQ(internal_events, 0);
    if (check_size > 1) {
        OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody is ahead */
        OK(MPI_Barrier(comm));
        poll();
        CHECK(internal_events > 0, "a collective's messages are messages");
    }
    if (is_small)
        short_ones(comm, session);
    send_within = 52;
    exchange(comm, 52, 8, 0);
    poll();
    EQ(send_within, -1);
    exchange(comm, 53, 8, 0);
    poll();
    EQ(seen[MATCHED][53].count, 1);
    CHECK(dropped > 0, "what happened while a function ran");
    for (int k = 0; k < KINDS; k++)
        OK(MPI_T_event_handle_free(kinds[k], NULL, NULL));
    before = calls;
    exchange(comm, 54, 8, 0);
    exchange(comm, 55, 8, 1);
    poll();
    EQ(calls, before);
    if (is_small) { /* counters alone */
        MPI_T_pvar_handle got = counter(session, "FERRULE_RECEIVED_EAGER");
        OK(MPI_T_pvar_start(session, got));
        exchange(comm, 56, 8, 0);
        CHECK(value_of(session, got) >= 1, "the message is not counted");
        EQ(calls, before);
    }
    EQ(wrong, 0);
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free(&other));
    OK(MPI_T_finalize());
    return check_done();
}
