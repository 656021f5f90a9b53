/* One message of the random program: its place in the plan, and the ways to send and to receive it. */
#ifndef MESSAGE_H
#define MESSAGE_H
#include "pending.h"

enum { ENTRIES = 24, RANKS = 64, LINES = 4, ARENA = 1 << 16 };
enum { ALL, REVERSED, EVEN, ODD, INTER, GROUPS };
enum kind { EXACT, WILD, COLLECT, SHIFT, BURST, CANCELLED, READY, PAUSE, KINDS };

struct group { MPI_Comm comm; int size, me; };

struct entry {
    enum kind kind;
    int group, side, from, to, tag, send_mode, recv_mode, send_layout, recv_layout; /* ranks are the group's; `side` sends (INTER) */
    size_t bytes;
    uint64_t id, seed;
};

/* A persistent message, sent in every step. */
struct line {
    struct entry plan;
    struct pending send, receive;
    MPI_Request request[2];
};

struct thread {
    int number, steps, step;
    size_t largest;
    uint64_t shared, own, ids; /* generators: the same on all ranks, and this rank's */
    MPI_Comm side, wild;       /* bursts, persistent and cancelled messages; wildcards */
    struct group group[GROUPS];
    struct queue queue;
    struct entry entry[ENTRIES];
    struct line line[LINES];
    int wilds, cancels;
    MPI_Request wild_rq[ENTRIES], cancel_rq[ENTRIES];
    struct pending wild_op[ENTRIES];
    char arena[ARENA];         /* small messages whose requests have been freed */
    size_t arena_used;
};

/* Whether this rank is the one that sends, or receives. */
static int is_sender(const struct thread *t, const struct entry *e)
{
    return t->group[e->group == INTER ? EVEN + e->side : e->group].me == e->from;
}
static int is_receiver(const struct thread *t, const struct entry *e)
{
    return t->group[e->group == INTER ? EVEN + !e->side : e->group].me == e->to;
}

static void start_send(struct thread *t, const struct entry *e, MPI_Comm comm, int mode, int ordered)
{
    struct queue *q = &t->queue;
    struct pending p = pending_buffer(SENT, e->bytes, e->bytes, e->send_layout, e->seed, e->id);
    p.ordered = ordered;
    struct layout *l = &p.layout;
    MPI_Request *rq = queue_push(q, p);
    switch (mode) {
    case 0: OK(MPI_Isend(p.buf, l->count, l->type, e->to, e->tag, comm, rq)); return;
    case 1: OK(MPI_Issend(p.buf, l->count, l->type, e->to, e->tag, comm, rq)); return;
    case 2: OK(MPI_Ibsend(p.buf, l->count, l->type, e->to, e->tag, comm, rq)); return;
    case 3: OK(MPI_Send(p.buf, l->count, l->type, e->to, e->tag, comm)); break;
    case 4: OK(MPI_Ssend(p.buf, l->count, l->type, e->to, e->tag, comm)); break;
    case 5: OK(MPI_Bsend(p.buf, l->count, l->type, e->to, e->tag, comm)); break;
    case 6: OK(MPI_Rsend(p.buf, l->count, l->type, e->to, e->tag, comm)); break;
    default: OK(MPI_Irsend(p.buf, l->count, l->type, e->to, e->tag, comm, rq)); return;
    }
    queue_end(q, q->used - 1, MPI_SUCCESS, MPI_STATUS_IGNORE);
    queue_compact(q);
}

static struct pending receive_buffer(struct thread *t, const struct entry *e, int truncated)
{
    size_t capacity = truncated ? e->bytes / 2 : e->bytes + (rnd_below(&t->own, 3) ? 0 : rnd_below(&t->own, 5000));
    struct pending p = pending_buffer(RECEIVED, e->bytes, capacity, truncated ? LAYOUT_BYTES : e->recv_layout, rnd(&t->own), e->id);
    p.truncated = truncated;
    p.from = e->from;
    p.tag = e->tag;
    p.comm = e->group;
    return p;
}

static void check_probed(const MPI_Status *st, const struct entry *e)
{
    int count = -7;
    OK(MPI_Get_count(st, MPI_BYTE, &count));
    EQ(count, e->bytes);
    EQ(st->MPI_SOURCE, e->from);
    EQ(st->MPI_TAG, e->tag);
}

/* A receive that is cancelled at once: if that comes too late the message must be there, else it is received again. */
static int receive_or_cancel(struct pending *p, MPI_Comm comm, MPI_Status *st)
{
    MPI_Request rq;
    int cancelled = 0;
    OK(MPI_Irecv(p->buf, p->layout.count, p->layout.type, p->from, p->tag, comm, &rq));
    OK(MPI_Cancel(&rq));
    int code = MPI_Wait(&rq, st);
    OK(MPI_Test_cancelled(st, &cancelled));
    return cancelled ? MPI_Recv(p->buf, p->layout.count, p->layout.type, p->from, p->tag, comm, st) : code;
}

static void start_receive(struct thread *t, const struct entry *e, MPI_Comm comm)
{
    int mode = e->recv_mode & 7, tag = e->recv_mode & 8 ? MPI_ANY_TAG : e->tag, flag = 0, code = MPI_SUCCESS;
    struct pending p = receive_buffer(t, e, mode == 6 && e->bytes > 1);
    struct layout *l = &p.layout;
    MPI_Request *rq = queue_push(&t->queue, p);
    MPI_Message message;
    MPI_Status st;
    switch (mode) {
    case 0: case 1: case 6: OK(MPI_Irecv(p.buf, l->count, l->type, e->from, tag, comm, rq)); return;
    case 2: code = MPI_Recv(p.buf, l->count, l->type, e->from, tag, comm, &st); break;
    case 3:
        OK(MPI_Probe(e->from, tag, comm, &st));
        check_probed(&st, e);
        code = MPI_Recv(p.buf, l->count, l->type, e->from, e->tag, comm, &st);
        break;
    case 4:
        while (!flag)
            OK(MPI_Improbe(e->from, tag, comm, &flag, &message, &st));
        check_probed(&st, e);
        OK(MPI_Imrecv(p.buf, l->count, l->type, &message, rq));
        CHECK(message == MPI_MESSAGE_NULL, "the message is still there");
        return;
    case 5:
        OK(MPI_Mprobe(e->from, tag, comm, &message, &st));
        check_probed(&st, e);
        code = MPI_Mrecv(p.buf, l->count, l->type, &message, &st);
        break;
    default: code = receive_or_cancel(&p, comm, &st);
    }
    queue_end(&t->queue, t->queue.used - 1, code, &st);
    queue_compact(&t->queue);
}

/* A message in ready mode: the receiver says when its receive stands. */
static void ready(struct thread *t, const struct entry *e, MPI_Comm comm)
{
    enum { TOKEN = 60 };
    if (is_receiver(t, e)) {
        struct pending p = receive_buffer(t, e, 0);
        MPI_Request *rq = queue_push(&t->queue, p);
        OK(MPI_Irecv(p.buf, p.layout.count, p.layout.type, e->from, e->tag, comm, rq));
        if (!is_sender(t, e))
            OK(MPI_Send(NULL, 0, MPI_BYTE, e->from, TOKEN, comm));
    }
    if (is_sender(t, e)) {
        if (!is_receiver(t, e))
            OK(MPI_Recv(NULL, 0, MPI_BYTE, e->to, TOKEN, comm, MPI_STATUS_IGNORE));
        start_send(t, e, comm, 6 + (e->send_mode & 1), 1);
    }
}

/* Every rank of the group to the one `from` places on. */
static void shift(struct thread *t, const struct entry *e)
{
    const struct group *g = &t->group[e->group];
    int to = (g->me + e->from) % g->size, from = (g->me + g->size - e->from) % g->size;
    struct entry in = *e, out = *e;
    in.from = from;
    in.id = e->id + from;
    out.id = e->id + g->me;
    struct pending r = receive_buffer(t, &in, 0);
    struct pending s = pending_buffer(SENT, e->bytes, e->bytes, e->send_layout, e->seed, out.id);
    MPI_Status st;
    if (e->send_mode & 1) { /* one buffer for both */
        struct pending p = pending_buffer(RECEIVED, e->bytes, e->bytes, e->send_layout, e->seed, in.id);
        p.from = from;
        p.tag = e->tag;
        p.comm = e->group;
        layout_fill(p.buf, &p.layout, out.id);
        if ((e->send_mode & 2) && !on_mpich()) { /* the oracle's status and data are wrong */
            OK(MPI_Isendrecv_replace(p.buf, p.layout.count, p.layout.type, to, e->tag, from, e->tag, g->comm, queue_push(&t->queue, p)));
        } else {
            OK(MPI_Sendrecv_replace(p.buf, p.layout.count, p.layout.type, to, e->tag, from, e->tag, g->comm, &st));
            queue_push(&t->queue, p);
            queue_end(&t->queue, t->queue.used - 1, MPI_SUCCESS, &st);
            queue_compact(&t->queue);
        }
        free(r.buf);
        layout_free(&r.layout);
    } else {
        OK(MPI_Sendrecv(s.buf, s.layout.count, s.layout.type, to, e->tag, r.buf, r.layout.count, r.layout.type, from, e->tag, g->comm, &st));
        queue_push(&t->queue, r);
        queue_end(&t->queue, t->queue.used - 1, MPI_SUCCESS, &st);
        queue_compact(&t->queue);
    }
    free(s.buf);
    layout_free(&s.layout);
}

/* Many small messages at once, received in the opposite order; some senders forget their requests. */
static void burst(struct thread *t, const struct entry *e)
{
    enum { FIRST_TAG = 2000, MOST = 300 };
    int n = 1 + (int)(e->seed % MOST), size = (int)((e->seed >> 20) % 65), early = e->recv_mode & 1, forget = e->send_mode & 1;
    char in[MOST][64];
    MPI_Request rq[2 * MOST];
    int used = 0;
    memset(in, UNTOUCHED, sizeof in);
    if (t->arena_used + (size_t)n * 64 > ARENA)
        forget = 0;
    char *out = forget ? t->arena + t->arena_used : alloc((size_t)n * 64);
    if (forget)
        t->arena_used += (size_t)n * 64;
    for (int k = n - 1; k >= 0 && is_receiver(t, e) && (early || is_sender(t, e)); k--)
        OK(MPI_Irecv(in[k], 64, MPI_BYTE, e->from, FIRST_TAG + k, t->side, &rq[used++]));
    for (int k = 0; k < n && is_sender(t, e); k++) {
        fill(out + 64 * k, size, e->id + k);
        OK(MPI_Isend(out + 64 * k, size, MPI_BYTE, e->to, FIRST_TAG + k, t->side, &rq[used]));
        if (forget)
            OK(MPI_Request_free(&rq[used]));
        else
            used++;
    }
    for (int k = n - 1; k >= 0 && is_receiver(t, e) && !early && !is_sender(t, e); k--)
        OK(MPI_Recv(in[k], 64, MPI_BYTE, e->from, FIRST_TAG + k, t->side, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(used, rq, MPI_STATUSES_IGNORE));
    for (int k = 0; k < n && is_receiver(t, e); k++)
        CHECK(wrong_at(in[k], size, e->id + k) == -1, "burst of %d, message %d of %d", n, k, size);
    t->queue.messages += (size_t)n * is_receiver(t, e);
    if (!forget)
        free(out);
}
#endif
