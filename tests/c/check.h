/* Common header of the process tests: one C file is one test, written against the standard MPI 5.0 ABI only.
 * A test starts with check_init(), counts failures with CHECK and OK, and returns check_done(): 0 pass, 1 fail, 77 skip. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What calls raise that need a lost process: MPICH's ABI has a number of its own for it. */
#ifdef MPIX_ERR_PROC_FAILED
#define ERR_LOST MPIX_ERR_PROC_FAILED
#else
#define ERR_LOST MPI_ERR_PROC_ABORTED
#endif

static int check_rank = -1, check_size = 0, check_failed = 0;

static inline void check_report(const char *file, int line, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (++check_failed <= 10)
        fprintf(stderr, "rank %d: %s:%d: %s\n", check_rank, file, line, text);
}

/* Records a failure and goes on, so that the ranks stay in step. */
#define CHECK(cond, ...) do { if (!(cond)) check_report(__FILE__, __LINE__, "" #cond ": " __VA_ARGS__); } while (0)
#define EQ(a, b) do { long long a_ = (long long)(a), b_ = (long long)(b); \
    if (a_ != b_) check_report(__FILE__, __LINE__, "%s is %lld, expected %lld", #a, a_, b_); } while (0)
#define STREQ(a, b) do { const char *a_ = (a), *b_ = (b); \
    if (strcmp(a_, b_)) check_report(__FILE__, __LINE__, "%s is \"%s\", expected \"%s\"", #a, a_, b_); } while (0)

/* A call that must succeed; going on after a failed one would only hang. */
static inline void check_ok(int code, const char *file, int line, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "?";
    int length = 0;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: %s:%d: %.100s: %s\n", check_rank, file, line, call, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) check_ok((call), __FILE__, __LINE__, #call)

/* A call that must fail with error class `want`; needs MPI_ERRORS_RETURN on the handler that the call uses. */
static inline void check_class(int code, int want, const char *file, int line, const char *call)
{
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (class != want)
        check_report(file, line, "%.120s: class %d, expected %d", call, class, want);
}
#define FAILS(want, call) check_class((call), (want), __FILE__, __LINE__, #call)
/* The standard leaves the choice of the class open: any error will do. */
#define FAILS_ANY(call) do { if ((call) == MPI_SUCCESS) check_report(__FILE__, __LINE__, "%.120s: no error", #call); } while (0)
/* One of two classes is right. */
static inline void check_class2(int code, int want, int other, const char *file, int line, const char *call)
{
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (class != want && class != other)
        check_report(file, line, "%.120s: class %d, expected %d or %d", call, class, want, other);
}
#define FAILS2(want, other, call) check_class2((call), (want), (other), __FILE__, __LINE__, #call)

static inline void check_world(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static inline void check_init(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    check_world();
}

static inline void check_init_multiple(int *argc, char ***argv)
{
    int provided = -1;
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK(provided == MPI_THREAD_MULTIPLE, "provided %d", provided);
}

static inline int check_done(void)
{
    int mine = check_failed, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}

/* The last words of a test in which a rank has died: those that are left say whether all was right, and free their communicator. */
static inline void check_survivors(MPI_Comm *survivors)
{
    int failed = check_failed, all = 0, rank;
    OK(MPI_Reduce(&failed, &all, 1, MPI_INT, MPI_SUM, 0, *survivors));
    OK(MPI_Comm_rank(*survivors, &rank));
    if (rank == 0 && !all)
        printf("the survivors agree\n");
    OK(MPI_Comm_free(survivors));
}

/* Ends the test as skipped, on every rank. */
static inline int check_skip(const char *reason)
{
    if (check_rank == 0)
        printf("SKIP: %s\n", reason);
    MPI_Finalize();
    return 77;
}

/* Where the oracle itself departs from the standard, the check is left out under it, with the reason beside the call. */
static inline int on_mpich(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    return !strncmp(text, "MPICH", 5);
}

/* Seconds of a clock that all processes of the machine share. */
static inline double check_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A small deterministic generator, equal on all ranks when seeded alike (splitmix64). */
static inline uint64_t rnd(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline int rnd_below(uint64_t *state, int n) { return (int)(rnd(state) % (uint64_t)n); }

/* The byte that stands at place `i` of the message `id`: position and message both show. */
static inline unsigned char pattern(uint64_t id, size_t i)
{
    uint64_t x = (id + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u;
    return (unsigned char)(x >> 56 ^ x >> 24);
}
static inline void fill(void *buf, size_t bytes, uint64_t id)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)buf)[i] = pattern(id, i);
}
/* Index of the first wrong byte, or -1. */
static inline long long wrong_at(const void *buf, size_t bytes, uint64_t id)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)buf)[i] != pattern(id, i))
            return (long long)i;
    return -1;
}
static inline void *alloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        abort();
    memset(p, 0xee, bytes ? bytes : 1);
    return p;
}
static inline int arg_is(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], word))
            return 1;
    return 0;
}
/* A check in which the oracle crashes or answers otherwise than the standard says. */
#define STRICT(statement) do { if (!on_mpich()) { statement; } } while (0)
#define LEN(a) ((int)(sizeof(a) / sizeof *(a)))
#endif
