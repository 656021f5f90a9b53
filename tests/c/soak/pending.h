/* What a thread of the random program has begun and not yet completed; completion checks what has come. */
#ifndef PENDING_H
#define PENDING_H
#include "collect.h"
#include "layout.h"

enum { SENT, RECEIVED, COLLECTIVE, GONE, PENDING_MAX = 2048, GRAVES = 16 };

struct pending {
    int what, from, tag, comm;
    int ordered;            /* everything it needs comes before this place of the program, so it may be waited for anywhere */
    int truncated;          /* the message is larger than the buffer */
    uint64_t id;
    size_t bytes;           /* of the message */
    char *buf;
    struct layout layout;   /* of the buffer */
    struct collective *collective;
};

struct queue {
    int used;
    MPI_Request rq[PENDING_MAX];
    struct pending op[PENDING_MAX];
    size_t bytes, sent_bytes, messages;
    char *grave[GRAVES];    /* buffers that the library has given back: nothing may write there any more */
    size_t grave_bytes[GRAVES], grave_next;
};

static void queue_bury(struct queue *q, char *buf, size_t bytes)
{
    size_t i = q->grave_next++ % GRAVES;
    for (size_t k = 0; q->grave[i] && k < q->grave_bytes[i]; k++)
        if (q->grave[i][k] != 0x33) {
            CHECK(0, "byte %zu of %zu was written after completion", k, q->grave_bytes[i]);
            break;
        }
    free(q->grave[i]);
    q->grave[i] = NULL;
    if (!buf)
        return;
    if (bytes > 300000) {
        free(buf); /* goes back to the system: whoever still reads it fails */
        return;
    }
    memset(buf, 0x33, bytes);
    q->grave[i] = buf;
    q->grave_bytes[i] = bytes;
}

static struct pending pending_buffer(int what, size_t bytes, size_t capacity, int kind, uint64_t seed, uint64_t id)
{
    struct pending p = {.what = what, .ordered = 1, .bytes = bytes, .id = id};
    p.layout = layout_make(kind, capacity, seed);
    p.buf = alloc(p.layout.span);
    if (what == SENT)
        layout_fill(p.buf, &p.layout, id);
    return p;
}

/* Checks one operation that has ended with `code` and `status`, and gives its memory back. */
static void pending_end(struct queue *q, struct pending *p, int code, const MPI_Status *status)
{
    if (p->what == COLLECTIVE) {
        CHECK(code == MPI_SUCCESS, "collective: %d", code);
        collect_check(p->collective);
        collect_free(p->collective);
        return;
    }
    q->messages++;
    q->bytes -= p->layout.span;
    if (p->what == SENT) {
        CHECK(code == MPI_SUCCESS, "send: %d", code);
        long long wrong = layout_wrong(p->buf, &p->layout, p->bytes, p->id);
        CHECK(wrong < 0, "sent buffer of %zu changed at %lld", p->bytes, wrong);
        q->sent_bytes += p->bytes;
    } else if (p->what == RECEIVED && p->truncated) {
        check_class(code, MPI_ERR_TRUNCATE, __FILE__, __LINE__, "receive of a larger message");
    } else if (p->what == RECEIVED) {
        int count = -7;
        CHECK(code == MPI_SUCCESS, "receive of %zu from %d: %d", p->bytes, p->from, code);
        OK(MPI_Get_elements(status, p->layout.type, &count));
        EQ(count, p->bytes);
        EQ(status->MPI_SOURCE, p->from);
        EQ(status->MPI_TAG, p->tag);
        long long wrong = layout_wrong(p->buf, &p->layout, p->bytes, p->id);
        CHECK(wrong < 0, "message of %zu from %d (comm %d tag %d) wrong at %lld", p->bytes, p->from, p->comm, p->tag, wrong);
    }
    queue_bury(q, p->buf, p->layout.span);
    layout_free(&p->layout);
}

static MPI_Request *queue_push(struct queue *q, struct pending p)
{
    if (q->used == PENDING_MAX)
        abort();
    q->rq[q->used] = MPI_REQUEST_NULL;
    q->op[q->used] = p;
    if (p.what != COLLECTIVE)
        q->bytes += p.layout.span;
    return &q->rq[q->used++];
}

/* Takes out what has been marked as gone. */
static void queue_compact(struct queue *q)
{
    int kept = 0;
    for (int i = 0; i < q->used; i++)
        if (q->op[i].what != GONE) {
            q->rq[kept] = q->rq[i];
            q->op[kept++] = q->op[i];
        }
    q->used = kept;
}

static void queue_end(struct queue *q, int i, int code, const MPI_Status *status)
{
    CHECK(q->rq[i] == MPI_REQUEST_NULL, "the request is still there");
    pending_end(q, &q->op[i], code, status);
    q->op[i].what = GONE;
}

/* Ends the operations `pick[0..n]`, whose requests stand in `rq`, by one of the completion calls; those that stay go back. */
static void queue_complete(struct queue *q, int *pick, int n, int call)
{
    MPI_Request *rq = calloc(n + 1, sizeof *rq);
    MPI_Status *st = calloc(n + 1, sizeof *st);
    int *index = calloc(n + 1, sizeof *index), code = MPI_SUCCESS, done = 0, at = -1;
    for (int i = 0; i < n; i++)
        rq[i] = q->rq[pick[i]];
    switch (call) {
    case 0: /* each by itself, in the order given */
        for (int i = 0; i < n; i++)
            index[i] = MPI_Wait(&rq[i], &st[i]);
        for (int i = 0; i < n; i++)
            st[i].MPI_ERROR = index[i];
        for (done = 0; done < n; done++)
            index[done] = done;
        code = MPI_ERR_IN_STATUS;
        break;
    case 1:
        code = MPI_Waitall(n, rq, st);
        for (done = 0; done < n; done++)
            index[done] = done;
        break;
    case 2: code = MPI_Waitsome(n, rq, &done, index, st); break;
    case 3: code = MPI_Testsome(n, rq, &done, index, st); break;
    case 4: code = MPI_Waitany(n, rq, &at, st); break;
    case 5:
        code = MPI_Testany(n, rq, &at, &done, st);
        break;
    case 6: {
        int all = 0;
        code = MPI_Testall(n, rq, &all, st);
        for (done = 0; all && done < n; done++)
            index[done] = done;
        break;
    }
    default: /* one only */
        code = MPI_Test(&rq[0], &done, &st[0]);
        index[0] = 0;
        if (done)
            st[0].MPI_ERROR = code;
        code = MPI_ERR_IN_STATUS;
    }
    if (call == 4 || call == 5) {
        done = at != MPI_UNDEFINED && at >= 0 && (call == 4 || done);
        index[0] = at;
        st[0].MPI_ERROR = code;
        code = MPI_ERR_IN_STATUS;
    }
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    CHECK(code == MPI_SUCCESS || class == MPI_ERR_IN_STATUS, "completion call %d: %d", call, class);
    if (done == MPI_UNDEFINED)
        done = 0;
    for (int i = 0; i < n; i++)
        q->rq[pick[i]] = rq[i];
    for (int i = 0; i < done; i++) {
        int own = class == MPI_ERR_IN_STATUS ? st[i].MPI_ERROR : MPI_SUCCESS;
        if (own != MPI_ERR_PENDING) /* another one failed, so this one was not waited for */
            queue_end(q, pick[index[i]], own, &st[i]);
    }
    queue_compact(q);
    free(rq);
    free(st);
    free(index);
}
#endif
