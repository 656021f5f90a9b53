/* What lanes are for. The first half of the ranks is on one host, the other half on the other; ranks i and i + size/2 are a pair, and the first of a pair sends the stream.
 * One JSON object a line from rank 0.
 *
 * lanes latency SECONDS GAP_US BULK BYTES   2 ranks: round trips of BYTES, the next one GAP_US µs after the last, while a stream of messages of BULK bytes (0: none) goes as fast as it can
 * lanes streams SECONDS BYTES               each pair: a stream of messages of BYTES; times between their arrivals
 * lanes alltoall SECONDS BYTES BULK         all ranks: MPI_Ialltoall of BYTES for each pair of ranks; between ranks 0 and size/2 also a stream of messages of BULK bytes (0: none)
 * lanes bulk SECONDS BULK                   each pair: a stream of messages of BULK bytes, checked by the receiver; bytes in each tenth of a second
 *
 * All waits are in MPI_Waitsome and its kin, so a library that can sleep does. */
#include "bench.h"
#include <math.h>
#include <stdint.h>
#include <time.h>

enum { WINDOW = 4, TAG_SMALL, TAG_BULK, TAG_STOP, SAMPLES_MAX = 1 << 18, SHOWN_MAX = 1000, SLICES_MAX = 4096, MARK_EVERY = 4096 };
static const double SLICE_S = 0.1;
static int partner, is_sender;
/* Small messages have a communicator of their own. */
static MPI_Comm small;

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) MPI_Abort(MPI_COMM_WORLD, 2);
    return p;
}
static void print_list(const char *name, const double *values, long count)
{
    printf(", \"%s\": [", name);
    for (long i = 0; i < count; i++) printf("%s%.5g", i ? "," : "", values[i]);
    printf("]");
}

/* Messages of one size to the partner, WINDOW of them under way. Both sides number them as they post them, which is the order in which they match. */
typedef struct {
    MPI_Request requests[WINDOW];
    char *buffers[WINDOW];
    uint64_t numbers[WINDOW];
    uint64_t posted;
    long bytes, done;
    int active, sends;
} Bulk;
static void bulk_post(Bulk *b, int slot)
{
    b->numbers[slot] = b->posted++;
    if (b->sends) {
        for (long at = 0; at + 8 <= b->bytes; at += MARK_EVERY) memcpy(b->buffers[slot] + at, &b->numbers[slot], 8);
        MPI_Isend(b->buffers[slot], (int)b->bytes, MPI_CHAR, partner, TAG_BULK, MPI_COMM_WORLD, &b->requests[slot]);
    } else
        MPI_Irecv(b->buffers[slot], (int)b->bytes, MPI_CHAR, partner, TAG_BULK, MPI_COMM_WORLD, &b->requests[slot]);
    b->active++;
}
static void bulk_start(Bulk *b, long bytes)
{
    *b = (Bulk){.bytes = bytes, .sends = is_sender};
    for (int i = 0; i < WINDOW; i++) b->requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; bytes && i < WINDOW; i++) {
        b->buffers[i] = buffer((size_t)bytes);
        bulk_post(b, i);
    }
}
static void bulk_done(Bulk *b, int slot, const MPI_Status *status)
{
    b->active--;
    if (!b->sends) {
        int count;
        MPI_Get_count(status, MPI_CHAR, &count);
        if (count == 0) return;
        for (long at = 0; at + 8 <= b->bytes; at += MARK_EVERY)
            if (memcmp(b->buffers[slot] + at, &b->numbers[slot], 8)) {
                fprintf(stderr, "rank %d: message %llu of the stream has other data at byte %ld\n", rank, (unsigned long long)b->numbers[slot], at);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
    }
    b->done += b->bytes;
    bulk_post(b, slot);
}
/* Waits for, or tests, the stream and one more request; returns whether that one has completed. */
static int turn(Bulk *b, MPI_Request *other, MPI_Status *status, int waits)
{
    MPI_Request all[WINDOW + 1];
    MPI_Status statuses[WINDOW + 1];
    int which[WINDOW + 1], count, found = 0;
    memcpy(all, b->requests, sizeof b->requests);
    all[WINDOW] = *other;
    (waits ? MPI_Waitsome : MPI_Testsome)(WINDOW + 1, all, &count, which, statuses);
    memcpy(b->requests, all, sizeof b->requests);
    *other = all[WINDOW];
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++) {
        if (which[i] < WINDOW)
            bulk_done(b, which[i], &statuses[i]);
        else {
            found = 1;
            if (status) *status = statuses[i];
        }
    }
    return found;
}
/* The sender sends an empty message for each receive that is posted; with these the stream ends. */
static void bulk_end(Bulk *b)
{
    if (b->bytes == 0) return;
    if (b->sends) {
        MPI_Waitall(WINDOW, b->requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < WINDOW; i++) MPI_Send(NULL, 0, MPI_CHAR, partner, TAG_BULK, MPI_COMM_WORLD);
    } else
        for (MPI_Request none = MPI_REQUEST_NULL; b->active > 0;) turn(b, &none, NULL, 1);
    for (int i = 0; i < WINDOW; i++) free(b->buffers[i]);
}

static void latency(double seconds, long gap_us, long bulk_bytes, long bytes)
{
    char *out = buffer((size_t)bytes), *in = buffer((size_t)bytes);
    Bulk bulk;
    bulk_start(&bulk, bulk_bytes);
    if (!is_sender) {
        for (;;) {
            MPI_Request receive;
            MPI_Status status;
            MPI_Irecv(in, (int)bytes, MPI_CHAR, partner, MPI_ANY_TAG, small, &receive);
            while (!turn(&bulk, &receive, &status, 1));
            if (status.MPI_TAG == TAG_STOP) break;
            MPI_Send(in, (int)bytes, MPI_CHAR, partner, TAG_SMALL, small);
        }
        bulk_end(&bulk);
    } else {
        double *samples = need(SAMPLES_MAX * sizeof *samples), counted_from = 0, now = 0;
        long count = 0, before = 0;
        /* The stream fills its queues first, for a second. */
        double begin = MPI_Wtime() + (bulk_bytes ? 1.0 : 0.1);
        while (now < begin + seconds && count < SAMPLES_MAX) {
            double start = MPI_Wtime();
            if (counted_from == 0 && start >= begin) {
                counted_from = start;
                before = bulk.done;
            }
            MPI_Request send, receive, none = MPI_REQUEST_NULL;
            MPI_Irecv(in, (int)bytes, MPI_CHAR, partner, TAG_SMALL, small, &receive);
            MPI_Isend(out, (int)bytes, MPI_CHAR, partner, TAG_SMALL, small, &send);
            while (!turn(&bulk, &receive, NULL, 1));
            now = MPI_Wtime();
            if (counted_from > 0) samples[count++] = (now - start) * 1e6;
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            for (double until = now + gap_us * 1e-6; MPI_Wtime() < until;) {
                turn(&bulk, &none, NULL, 0);
                nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
            }
        }
        double rate = (double)(bulk.done - before) * 8e-6 / (now - counted_from);
        MPI_Send(NULL, 0, MPI_CHAR, partner, TAG_STOP, small);
        bulk_end(&bulk);
        printf("{\"row\": \"round trip\", \"ranks\": %d, \"bytes\": %ld, \"unit\": \"us\", \"bulk_mbit\": %.5g", size, bytes, rate);
        print_list("samples", samples, count);
        printf("}\n");
        free(samples);
    }
    free(out);
    free(in);
}

static void streams(double seconds, long bytes)
{
    char *data = buffer((size_t)bytes);
    /* Of each rank: coefficient of variation, Mb/s, and some of the times in µs. */
    double *mine = need((2 + SHOWN_MAX) * sizeof *mine);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime() + 1.0;
    if (is_sender) {
        while (MPI_Wtime() < begin + seconds) MPI_Send(data, (int)bytes, MPI_CHAR, partner, TAG_SMALL, small);
        MPI_Send(NULL, 0, MPI_CHAR, partner, TAG_STOP, small);
    } else {
        double *times = need(SAMPLES_MAX * sizeof *times);
        long count = 0;
        for (MPI_Status status;;) {
            MPI_Recv(data, (int)bytes, MPI_CHAR, partner, MPI_ANY_TAG, small, &status);
            double now = MPI_Wtime();
            if (status.MPI_TAG == TAG_STOP) break;
            if (now >= begin && now < begin + seconds && count < SAMPLES_MAX) times[count++] = now;
        }
        double sum = 0, squares = 0;
        long gaps = count - 1;
        for (long i = 0; i < gaps; i++) {
            double gap = (times[i + 1] - times[i]) * 1e6;
            sum += gap;
            squares += gap * gap;
        }
        if (gaps > 0) {
            double mean = sum / (double)gaps, variance = squares / (double)gaps - mean * mean;
            mine[0] = mean > 0 ? sqrt(variance > 0 ? variance : 0) / mean : 0;
            mine[1] = (double)bytes * 8 / mean;
            for (long i = 0; i < SHOWN_MAX; i++) {
                long at = gaps <= SHOWN_MAX ? i % gaps : (long)((double)i * (double)gaps / SHOWN_MAX);
                mine[2 + i] = (times[at + 1] - times[at]) * 1e6;
            }
        }
        free(times);
    }
    double *all = rank == 0 ? need((size_t)size * (2 + SHOWN_MAX) * sizeof *all) : NULL;
    MPI_Gather(mine, 2 + SHOWN_MAX, MPI_DOUBLE, all, 2 + SHOWN_MAX, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        int pairs = size / 2;
        double *variations = need((size_t)pairs * sizeof *variations), *rates = need((size_t)pairs * sizeof *rates), *gaps = need((size_t)pairs * SHOWN_MAX * sizeof *gaps);
        for (int i = 0; i < pairs; i++) {
            double *one = all + (size_t)(pairs + i) * (2 + SHOWN_MAX);
            variations[i] = one[0];
            rates[i] = one[1];
            memcpy(gaps + (size_t)i * SHOWN_MAX, one + 2, SHOWN_MAX * sizeof *gaps);
        }
        printf("{\"row\": \"inter-arrival\", \"ranks\": %d, \"bytes\": %ld, \"unit\": \"us\"", size, bytes);
        print_list("variations", variations, pairs);
        print_list("mbit", rates, pairs);
        print_list("samples", gaps, (long)pairs * SHOWN_MAX);
        printf("}\n");
    }
    free(all);
    free(mine);
    free(data);
}

static void alltoall(double seconds, long bytes, long bulk_bytes)
{
    char *out = buffer((size_t)(bytes * size)), *in = buffer((size_t)(bytes * size));
    double *samples = need(SAMPLES_MAX * sizeof *samples), counted_from = 0, start = 0;
    long count = 0, before = 0, is_last = 0;
    Bulk bulk;
    bulk_start(&bulk, rank % (size / 2) ? 0 : bulk_bytes);
    double begin = MPI_Wtime() + (bulk_bytes ? 1.0 : 0.1);
    while (!is_last) {
        start = MPI_Wtime();
        if (counted_from == 0 && start >= begin) {
            counted_from = start;
            before = bulk.done;
        }
        /* The first byte of each block from rank 0 tells whether this is the last time. */
        for (int i = 0; i < size; i++) out[i * bytes] = (char)(start >= begin + seconds || count == SAMPLES_MAX);
        MPI_Request request;
        MPI_Ialltoall(out, (int)bytes, MPI_CHAR, in, (int)bytes, MPI_CHAR, small, &request);
        while (!turn(&bulk, &request, NULL, 1));
        is_last = in[0];
        if (counted_from > 0 && count < SAMPLES_MAX) samples[count++] = (MPI_Wtime() - start) * 1e6;
    }
    double rate = (double)(bulk.done - before) * 8e-6 / (MPI_Wtime() - counted_from);
    bulk_end(&bulk);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("{\"row\": \"all-to-all\", \"ranks\": %d, \"bytes\": %ld, \"unit\": \"us\", \"bulk_mbit\": %.5g", size, bytes, rate);
        print_list("samples", samples, count);
        printf("}\n");
    }
    free(samples);
    free(out);
    free(in);
}

static void bulk_alone(double seconds, long bytes)
{
    double *slices = need(SLICES_MAX * sizeof *slices), *all = need(SLICES_MAX * sizeof *all);
    Bulk bulk;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    bulk_start(&bulk, bytes);
    MPI_Request stop = MPI_REQUEST_NULL;
    if (is_sender) {
        while (MPI_Wtime() < begin + seconds) turn(&bulk, &stop, NULL, 1);
        MPI_Send(NULL, 0, MPI_CHAR, partner, TAG_STOP, small);
    } else {
        MPI_Irecv(NULL, 0, MPI_CHAR, partner, TAG_STOP, small, &stop);
        for (int is_over = 0; !is_over;) {
            long before = bulk.done;
            is_over = turn(&bulk, &stop, NULL, 1);
            long slice = (long)((MPI_Wtime() - begin) / SLICE_S);
            if (slice < SLICES_MAX) slices[slice] += (double)(bulk.done - before) * 8e-6 / SLICE_S;
        }
    }
    bulk_end(&bulk);
    MPI_Reduce(slices, all, SLICES_MAX, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        long count = (long)(seconds / SLICE_S);
        printf("{\"row\": \"bandwidth\", \"ranks\": %d, \"bytes\": %ld, \"unit\": \"Mb/s\"", size, bytes);
        print_list("samples", all, count < SLICES_MAX ? count : SLICES_MAX);
        printf("}\n");
    }
    free(all);
    free(slices);
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv);
    const char *what = argc > 2 ? argv[1] : "";
    double seconds = argc > 2 ? atof(argv[2]) : 0;
    long numbers[3] = {0};
    for (int i = 3; i < argc && i < 6; i++) numbers[i - 3] = atol(argv[i]);
    partner = (rank + size / 2) % size;
    is_sender = rank < size / 2;
    MPI_Comm_dup(MPI_COMM_WORLD, &small);
    if (size < 2 || size % 2)
        what = "";
    if (!strcmp(what, "latency") && argc == 6 && size == 2)
        latency(seconds, numbers[0], numbers[1], numbers[2]);
    else if (!strcmp(what, "streams") && argc == 4)
        streams(seconds, numbers[0]);
    else if (!strcmp(what, "alltoall") && argc == 5)
        alltoall(seconds, numbers[0], numbers[1]);
    else if (!strcmp(what, "bulk") && argc == 4)
        bulk_alone(seconds, numbers[0]);
    else {
        if (rank == 0) fprintf(stderr, "usage: lanes latency|streams|alltoall|bulk SECONDS ..., see the head of bench/lanes.c; ranks come in pairs\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Comm_free(&small);
    MPI_Finalize();
    return 0;
}
