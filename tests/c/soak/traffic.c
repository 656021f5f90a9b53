/* A random program: every rank draws the same list of actions from the seed and performs its part in the order of the list, so
 * it can't deadlock: messages of all modes, sizes and layouts, probes, wildcards, persistent and cancelled requests, bursts,
 * collectives, completion in any order. Everything that arrives is checked, and that nothing else is touched.
 * Arguments: seed, steps, threads (0: MPI_Init and main only), largest message in KiB. */
#include "message.h"
#include <pthread.h>
#include <time.h>

static const size_t SIZES[] = {0, 1, 7, 8, 40, 64, 100, 1000, 2032, 2040, 2047, 2048, 2049, 2100, 4096, 8128, 8176, 8191, 8192, 8193,
    10000, 16383, 16384, 16385, 30000, 65536, 100000, 131071, 131072, 131073, 200000, 262144, 500001, 1048576, 2097152, 5000000, 8388608};

static size_t random_size(struct thread *t)
{
    size_t bytes = SIZES[rnd_below(&t->shared, LEN(SIZES))];
    int divisor = 1 + rnd_below(&t->shared, 64), shrink = rnd_below(&t->shared, 4);
    if (bytes > 300000 && shrink)
        bytes /= divisor;
    return bytes > t->largest ? bytes % (t->largest + 1) : bytes;
}

static int group_size(int group)
{
    return group == EVEN ? (check_size + 1) / 2 : group == ODD ? check_size / 2 : check_size;
}

static struct entry draw(struct thread *t)
{
    static const enum kind KIND[] = {EXACT, EXACT, EXACT, EXACT, EXACT, EXACT, EXACT, WILD, WILD, WILD, COLLECT, COLLECT, COLLECT,
        SHIFT, BURST, CANCELLED, READY, PAUSE};
    uint64_t *s = &t->shared;
    struct entry e = {.kind = KIND[rnd_below(s, LEN(KIND))], .group = rnd_below(s, GROUPS), .side = rnd_below(s, 2)};
    if (e.kind == WILD || e.kind == BURST || e.kind == CANCELLED || e.kind == PAUSE)
        e.group = ALL;
    if ((e.group == INTER && e.kind != EXACT && e.kind != READY) || check_size < 2)
        e.group = REVERSED;
    int from_group = e.group == INTER ? EVEN + e.side : e.group, to_group = e.group == INTER ? EVEN + !e.side : e.group;
    e.from = rnd_below(s, group_size(from_group));
    e.to = rnd_below(s, group_size(to_group));
    e.tag = rnd_below(s, 3);
    e.send_mode = rnd_below(s, 6);
    e.recv_mode = rnd_below(s, 16);
    e.send_layout = rnd_below(s, 2 * LAYOUTS);
    e.recv_layout = rnd_below(s, 2 * LAYOUTS);
    e.send_layout = e.send_layout < LAYOUTS ? e.send_layout : LAYOUT_BYTES;
    e.recv_layout = e.recv_layout < LAYOUTS ? e.recv_layout : LAYOUT_BYTES;
    e.bytes = random_size(t);
    e.seed = rnd(s);
    e.id = (uint64_t)t->number << 40 | t->ids;
    t->ids += 1000;
    if (e.group < INTER && e.from == e.to && e.kind == EXACT) { /* a blocking call can't wait for itself */
        e.send_mode %= 3;
        e.recv_mode &= 8;
    }
    return e;
}

static struct collective *collective_of(struct thread *t, const struct entry *e)
{
    static const int COUNTS[] = {0, 1, 3, 16, 100, 255, 256, 1025, 2048, 8200, 40000};
    struct collective *c = calloc(1, sizeof *c);
    *c = (struct collective){.kind = (int)(e->seed % COLLECTIVES), .root = e->from, .count = COUNTS[(e->seed >> 8) % LEN(COUNTS)],
        .nonblocking = e->send_mode & 1, .in_place = e->recv_mode & 1, .size = t->group[e->group].size, .me = t->group[e->group].me,
        .id = e->id};
    if ((size_t)c->count * 8 > t->largest)
        c->count = 100;
    return c;
}

static void act(struct thread *t, struct entry *e)
{
    struct group *g = &t->group[e->group];
    if (e->group != INTER && g->me < 0)
        return;
    switch (e->kind) {
    case EXACT: /* a self message is sent before it is received: its send does not block */
        if (is_sender(t, e))
            start_send(t, e, g->comm, e->send_mode, 1);
        if (is_receiver(t, e))
            start_receive(t, e, g->comm);
        break;
    case WILD:
        if (is_sender(t, e))
            start_send(t, e, t->wild, e->send_mode % 3, 0);
        break;
    case COLLECT: {
        struct pending p = {.what = COLLECTIVE, .ordered = 1, .collective = collective_of(t, e)};
        MPI_Request *rq = queue_push(&t->queue, p);
        collect_start(p.collective, g->comm, rq);
        if (!p.collective->nonblocking)
            queue_end(&t->queue, t->queue.used - 1, MPI_SUCCESS, MPI_STATUS_IGNORE);
        queue_compact(&t->queue);
        break;
    }
    case SHIFT: shift(t, e); break;
    case BURST: burst(t, e); break;
    case CANCELLED:
        if (is_receiver(t, e))
            OK(MPI_Irecv(NULL, 0, MPI_BYTE, e->send_mode & 1 ? MPI_ANY_SOURCE : e->from, 50, t->side, &t->cancel_rq[t->cancels++]));
        break;
    case READY: ready(t, e, g->comm); break;
    default:
        if (is_sender(t, e))
            nanosleep(&(struct timespec){0, e->seed % 3000000}, NULL);
    }
}

/* Completes some of what may be waited for now: only what needs nothing that comes later in the program. */
static void complete_some(struct thread *t, int all, int call)
{
    int pick[PENDING_MAX], n = 0;
    for (int i = 0; i < t->queue.used; i++)
        if (t->queue.op[i].ordered && (all || rnd_below(&t->own, 2)))
            pick[n++] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = rnd_below(&t->own, i + 1), was = pick[i];
        pick[i] = pick[k];
        pick[k] = was;
    }
    if (n)
        queue_complete(&t->queue, pick, n, call);
}

/* ---- messages received with wildcards: posted before the step, or probed for after it ---- */

static int wild_tag(const struct thread *t) { return 100 + t->step % 1000; }

static void post_wild(struct thread *t)
{
    struct entry largest = {.bytes = 0};
    int n = 0;
    for (int i = 0; i < ENTRIES; i++) {
        struct entry *e = &t->entry[i];
        if (e->kind != WILD)
            continue;
        e->tag = wild_tag(t);
        if (e->bytes > 300000)
            e->bytes %= 300000;
        if (e->bytes > largest.bytes)
            largest = *e;
        n += is_receiver(t, e);
    }
    for (t->wilds = 0; t->wilds < n; t->wilds++) {
        struct pending p = receive_buffer(t, &largest, 0);
        t->wild_op[t->wilds] = p;
        t->wild_rq[t->wilds] = MPI_REQUEST_NULL;
        if (t->step & 1)
            OK(MPI_Irecv(p.buf, p.layout.count, p.layout.type, MPI_ANY_SOURCE, wild_tag(t), t->wild, &t->wild_rq[t->wilds]));
    }
}

static void finish_wild(struct thread *t, int sealed)
{
    int next[RANKS] = {0};
    MPI_Status st[ENTRIES];
    for (int k = 0; k < t->wilds && !(t->step & 1); k++) {
        struct pending *p = &t->wild_op[k];
        MPI_Message message;
        OK(MPI_Mprobe(MPI_ANY_SOURCE, sealed ? MPI_ANY_TAG : wild_tag(t), t->wild, &message, MPI_STATUS_IGNORE));
        OK(MPI_Imrecv(p->buf, p->layout.count, p->layout.type, &message, &t->wild_rq[k]));
    }
    OK(MPI_Waitall(t->wilds, t->wild_rq, st));
    for (int k = 0; k < t->wilds; k++) { /* in the order of the receives; messages of one sender come in their order */
        struct pending *p = &t->wild_op[k];
        int from = st[k].MPI_SOURCE;
        while (next[from] < ENTRIES && !(t->entry[next[from]].kind == WILD && t->entry[next[from]].from == from &&
                   is_receiver(t, &t->entry[next[from]])))
            next[from]++;
        CHECK(next[from] < ENTRIES, "an unexpected message from %d", from);
        if (next[from] == ENTRIES)
            continue;
        const struct entry *e = &t->entry[next[from]++];
        p->id = e->id;
        p->bytes = e->bytes;
        p->from = from;
        p->tag = e->tag;
        t->queue.bytes += p->layout.span;
        pending_end(&t->queue, p, MPI_SUCCESS, &st[k]);
    }
    int pick[PENDING_MAX], n = 0;
    for (int i = 0; i < t->queue.used; i++)
        if (!t->queue.op[i].ordered)
            pick[n++] = i;
    if (n)
        queue_complete(&t->queue, pick, n, t->step % 2);
}

/* ---- persistent messages ---- */

static void make_lines(struct thread *t)
{
    for (int i = 0; i < LINES; i++) {
        struct line *line = &t->line[i];
        struct entry *e = &line->plan;
        *e = draw(t);
        e->group = ALL;
        e->from = (int)(e->seed % check_size);
        e->to = (int)((e->seed >> 8) % check_size);
        e->tag = 3000 + i;
        line->request[0] = line->request[1] = MPI_REQUEST_NULL;
        if (is_sender(t, e)) {
            struct pending p = line->send = pending_buffer(SENT, e->bytes, e->bytes, e->send_layout, e->seed, e->id);
            OK((e->send_mode % 3 == 0 ? MPI_Send_init : e->send_mode % 3 == 1 ? MPI_Ssend_init : MPI_Bsend_init)(
                p.buf, p.layout.count, p.layout.type, e->to, e->tag, t->side, &line->request[0]));
        }
        if (is_receiver(t, e)) {
            struct pending p = line->receive = receive_buffer(t, e, 0);
            OK(MPI_Recv_init(p.buf, p.layout.count, p.layout.type, e->from, e->tag, t->side, &line->request[1]));
        }
    }
}

static void start_lines(struct thread *t)
{
    for (int i = 0; i < LINES; i++)
        for (int k = 0; k < 2; k++) {
            struct line *line = &t->line[i];
            if (line->request[k] == MPI_REQUEST_NULL)
                continue;
            struct pending *p = k ? &line->receive : &line->send;
            p->id = line->plan.id + t->step;
            memset(p->buf, UNTOUCHED, p->layout.span);
            if (k == 0)
                layout_fill(p->buf, &p->layout, p->id);
            OK(MPI_Start(&line->request[k]));
        }
}

static void finish_lines(struct thread *t)
{
    MPI_Status st;
    for (int i = LINES - 1; i >= 0; i--)
        for (int k = 1; k >= 0; k--) {
            struct line *line = &t->line[i];
            if (line->request[k] == MPI_REQUEST_NULL)
                continue;
            OK(MPI_Wait(&line->request[k], &st));
            struct pending *p = k ? &line->receive : &line->send;
            long long wrong = layout_wrong(p->buf, &p->layout, p->bytes, p->id);
            CHECK(wrong < 0, "persistent message of %zu wrong at %lld", p->bytes, wrong);
        }
}

static void free_lines(struct thread *t)
{
    for (int i = 0; i < LINES; i++)
        for (int k = 0; k < 2; k++)
            if (t->line[i].request[k] != MPI_REQUEST_NULL) {
                struct pending *p = k ? &t->line[i].receive : &t->line[i].send;
                OK(MPI_Request_free(&t->line[i].request[k]));
                free(p->buf);
                layout_free(&p->layout);
            }
}

/* ---- the program ---- */

static void step(struct thread *t)
{
    for (int i = 0; i < ENTRIES; i++)
        t->entry[i] = draw(t);
    int sealed = rnd_below(&t->shared, 4) == 0;
    if (sealed)
        OK(MPI_Barrier(t->side));
    start_lines(t);
    post_wild(t);
    for (int i = 0; i < ENTRIES; i++) {
        act(t, &t->entry[i]);
        if (rnd_below(&t->own, 3) == 0)
            complete_some(t, 0, rnd_below(&t->own, 8));
        if (t->queue.bytes > 48u << 20 || t->queue.used > PENDING_MAX / 2)
            complete_some(t, 1, 1);
    }
    finish_wild(t, sealed);
    finish_lines(t);
    for (; t->cancels > 0; t->cancels--) {
        int cancelled = 0;
        MPI_Status st;
        OK(MPI_Cancel(&t->cancel_rq[t->cancels - 1]));
        OK(MPI_Wait(&t->cancel_rq[t->cancels - 1], &st));
        OK(MPI_Test_cancelled(&st, &cancelled));
        EQ(cancelled, 1);
    }
    if (rnd_below(&t->own, 2))
        complete_some(t, 1, rnd_below(&t->own, 2));
    if (sealed)
        OK(MPI_Barrier(t->side));
}

static void add_group(struct thread *t, int which, MPI_Comm comm)
{
    struct group *g = &t->group[which];
    *g = (struct group){comm, 0, -1};
    if (comm == MPI_COMM_NULL)
        return;
    OK(MPI_Comm_size(comm, &g->size));
    OK(MPI_Comm_rank(comm, &g->me));
    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
}

static void prepare(struct thread *t)
{
    MPI_Comm comm, half;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    add_group(t, ALL, comm);
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comm));
    add_group(t, REVERSED, comm);
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank & 1, check_rank, &half));
    add_group(t, EVEN, check_rank & 1 ? MPI_COMM_NULL : half);
    add_group(t, ODD, check_rank & 1 ? half : MPI_COMM_NULL);
    comm = MPI_COMM_NULL;
    if (check_size > 1)
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(check_rank & 1), t->number, &comm));
    add_group(t, INTER, comm);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &t->side));
    OK(MPI_Comm_attach_buffer(t->side, MPI_BUFFER_AUTOMATIC, 0));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &t->wild));
    OK(MPI_Comm_attach_buffer(t->wild, MPI_BUFFER_AUTOMATIC, 0));
}

static void finish(struct thread *t)
{
    for (int i = 0; i < GRAVES; i++)
        queue_bury(&t->queue, NULL, 0);
    for (int i = 0; i < GROUPS; i++)
        if (t->group[i].comm != MPI_COMM_NULL)
            OK(MPI_Comm_free(&t->group[i].comm));
    OK(MPI_Comm_free(&t->side));
    OK(MPI_Comm_free(&t->wild));
}

static void *run(void *arg)
{
    struct thread *t = arg;
    make_lines(t);
    for (t->step = 0; t->step < t->steps; t->step++)
        step(t);
    for (int i = 0; i < PENDING_MAX && t->queue.used; i++) /* one that fails may leave others pending */
        complete_some(t, 1, 1);
    EQ(t->queue.used, 0);
    OK(MPI_Barrier(t->side)); /* what had its request freed has arrived too */
    free_lines(t);
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int steps = argc > 2 ? atoi(argv[2]) : 20, threads = argc > 3 ? atoi(argv[3]) : 0;
    size_t largest = (argc > 4 ? strtoull(argv[4], NULL, 10) : 8192) << 10;
    if (threads)
        check_init_multiple(&argc, &argv);
    else
        check_init(&argc, &argv);
    if (check_size > RANKS)
        return check_skip("too many ranks");
    collect_init();
    int n = threads ? threads : 1;
    struct thread *all = calloc(n, sizeof *all);
    pthread_t *handle = calloc(n, sizeof *handle);
    for (int i = 0; i < n; i++) {
        all[i] = (struct thread){.number = i, .steps = steps, .largest = largest, .shared = seed * 1000 + i,
            .own = seed * 77777 + check_rank * 100 + i};
        prepare(&all[i]);
    }
    for (int i = 1; i < n; i++)
        pthread_create(&handle[i], NULL, run, &all[i]);
    run(&all[0]);
    size_t messages = 0, bytes = 0;
    for (int i = 0; i < n; i++) {
        if (i)
            pthread_join(handle[i], NULL);
        finish(&all[i]);
        messages += all[i].queue.messages;
        bytes += all[i].queue.sent_bytes;
    }
    if (check_failed || arg_is(argc, argv, "-v"))
        fprintf(stderr, "rank %d of %d, seed %llu: %zu messages, %zu bytes, %d failures\n", check_rank, check_size,
            (unsigned long long)seed, messages, bytes, check_failed);
    collect_finish();
    free(all);
    free(handle);
    return check_done();
}
