/* Raw limits of the machine, without MPI: spin ping-pong through shared memory, process_vm_readv, and a two-copy ring.
 * Usage: raw [distance|latency|warm|cold]; all but the first without an argument. Prints the same JSON lines as the others. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <signal.h>
enum { CHUNK = 16384, SLOTS = 4, COLD = 64 << 20 };

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void report(const char *row, long bytes, double v, const char *unit) { printf("{\"row\": \"%s\", \"ranks\": 2, \"bytes\": %ld, \"value\": %.6g, \"unit\": \"%s\"}\n", row, bytes, v, unit); fflush(stdout); }
static void pin(int which)
{
    static cpu_set_t all; /* as it was before anybody was pinned: children inherit the mask */
    static int known;
    cpu_set_t one;
    if (!known++)
        sched_getaffinity(0, sizeof all, &all);
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && which-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(c, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}
struct shared {
    _Alignas(128) atomic_long ping;
    _Alignas(128) atomic_long pong;
    _Alignas(128) atomic_long head;
    _Alignas(128) atomic_long tail;
    _Alignas(4096) char ring[SLOTS][CHUNK];
};
static struct shared *sh;

static pid_t split(void)
{
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    return child;
}

/* Latency of a line that two processors write in turn: the best of slices of so many turns. */
enum { SLICE = 20000 };
static void ping_pong(long k)
{
    pid_t child = split();
    if (child == 0) {
        pin(1);
        for (long i = 1; i <= k; i++) { while (atomic_load_explicit(&sh->ping, memory_order_acquire) < i) ; atomic_store_explicit(&sh->pong, i, memory_order_release); }
        _exit(0);
    }
    pin(0);
    double best = 1e9, t = 0;
    for (long i = 1; i <= k; i++) {
        if (i % SLICE == 1) { if (i > 1) { double d = now() - t; if (d < best) best = d; } t = now(); }
        atomic_store_explicit(&sh->ping, i, memory_order_release);
        while (atomic_load_explicit(&sh->pong, memory_order_acquire) < i) ;
    }
    report("raw spin ping-pong", 8, best / SLICE / 2 * 1e6, "us");
    waitpid(child, NULL, 0);
}
/* Rate at which this process takes `n` bytes at a time out of `child`, by process_vm_readv. */
static void readv_rate(long n, int cold)
{
    char *buf = mmap(NULL, COLD + n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *in = malloc(COLD + n);
    memset(buf, 1, COLD + n);
    memset(in, 0, COLD + n);
    pid_t child = split();
    if (child == 0) { memset(buf, 2, COLD + n); for (;;) pause(); }
    usleep(100000);
    double best = 0, end = now() + 0.4;
    for (long at = 0; now() < end;) {
        double t = now();
        long done = 0;
        while (done < (8 << 20)) {
            struct iovec l = {in + at, n}, r = {buf + at, n};
            if (process_vm_readv(child, &l, 1, &r, 1, 0) != n) { kill(child, SIGKILL); waitpid(child, NULL, 0); return; }
            done += n;
            at = cold ? (at + ((n + 4095) & ~4095L)) % COLD : 0;
        }
        double rate = done / (now() - t);
        if (rate > best) best = rate;
    }
    report(cold ? "raw process_vm_readv cold" : "raw process_vm_readv warm", n, best / 1e9, "GB/s");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(buf, COLD + n);
    free(in);
}
static void ring_rate(long n, int cold)
{
    long total = 384L << 20, piece = n < CHUNK ? n : CHUNK, pieces = total / piece, wrap = cold ? COLD : ((n + 4095) & ~4095L);
    char *mem = malloc(COLD + CHUNK);
    memset(mem, 1, COLD + CHUNK);
    atomic_store(&sh->head, 0);
    atomic_store(&sh->tail, 0);
    pid_t child = split();
    if (child == 0) {
        pin(1);
        memset(mem, 1, COLD + CHUNK);
        for (long i = 0; i < pieces; i++) {
            while (i - atomic_load_explicit(&sh->tail, memory_order_acquire) >= SLOTS) ;
            memcpy(sh->ring[i % SLOTS], mem + i * piece % wrap, piece);
            atomic_store_explicit(&sh->head, i + 1, memory_order_release);
        }
        _exit(0);
    }
    pin(0);
    double best = 0, t = now();
    long step = pieces / 24;
    for (long i = 0; i < pieces; i++) {
        if (i % step == 0) { double d = now() - t; if (i && step * piece / d > best) best = step * piece / d; t = now(); }
        while (atomic_load_explicit(&sh->head, memory_order_acquire) <= i) ;
        memcpy(mem + i * piece % wrap, sh->ring[i % SLOTS], piece);
        atomic_store_explicit(&sh->tail, i + 1, memory_order_release);
    }
    report(cold ? "raw two-copy ring cold" : "raw two-copy ring warm", n, best / 1e9, "GB/s");
    waitpid(child, NULL, 0);
    free(mem);
}

int main(int argc, char **argv)
{
    static const long sizes[] = {65536, 524288, 1 << 20, 4 << 20};
    sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(sh, 0, sizeof *sh);
    const char *only = argc > 1 ? argv[1] : "";
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return fprintf(stderr, "raw: there is only one processor\n"), 1;
    if (!strcmp(only, "distance"))
        ping_pong(6 * SLICE);
    if (!*only || !strcmp(only, "latency"))
        ping_pong(20 * SLICE);
    for (int cold = 0; cold < 2; cold++)
        for (int s = 0; s < 4 && (!*only || !strcmp(only, cold ? "cold" : "warm")); s++) {
            readv_rate(sizes[s], cold);
            ring_rate(sizes[s], cold);
        }
    return 0;
}
