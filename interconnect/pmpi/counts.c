/* The counts: rows by world rank, phases, ranks of communicators as world ranks. */
#define _GNU_SOURCE
#include "pmpi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

Profile profile;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* Attribute of communicators: world ranks of the processes that messages go to. */
static int world_ranks = MPI_KEYVAL_INVALID;
/* Nothing is counted: before MPI_Init, after MPI_Finalize, after MPI_Pcontrol(0). */
static int paused = 1;

void profile_lock(void) { pthread_mutex_lock(&mutex); }
void profile_unlock(void) { pthread_mutex_unlock(&mutex); }

/* What is counted goes into this plan instead, while there is one. */
static _Thread_local Plan *planning;

int profile_is_counting(void) { return !paused; }

void profile_plan_begin(void) { planning = calloc(1, sizeof *planning); }

Plan *profile_plan_end(void)
{
    Plan *plan = planning;
    planning = NULL;
    return plan;
}

static int forget_ranks(MPI_Comm comm, int keyval, void *ranks, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    free(ranks);
    return MPI_SUCCESS;
}

/* World ranks of the members of `group`, which is freed. */
int *profile_world_ranks(MPI_Group group)
{
    MPI_Group world;
    int size = 0;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(group, &size);
    int *own = malloc((size_t)(size + 1) * sizeof *own), *ranks = malloc((size_t)(size + 1) * sizeof *ranks);
    for (int i = 0; i < size; i++)
        own[i] = i;
    PMPI_Group_translate_ranks(group, size, own, world, ranks);
    free(own);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return ranks;
}

/* World ranks of those that messages on `comm` go to. */
static const int *ranks_of(MPI_Comm comm)
{
    int found = 0, inter = 0, *ranks = NULL;
    PMPI_Comm_get_attr(comm, world_ranks, &ranks, &found);
    if (found)
        return ranks;
    MPI_Group group;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        PMPI_Comm_remote_group(comm, &group);
    else
        PMPI_Comm_group(comm, &group);
    ranks = profile_world_ranks(group);
    PMPI_Comm_set_attr(comm, world_ranks, ranks);
    return ranks;
}

static double unix_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void profile_begin(void)
{
    const char *how = getenv("FERRULE_PMPI_COLLECTIVES");
    PMPI_Comm_rank(MPI_COMM_WORLD, &profile.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &profile.size);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_ranks, &world_ranks, NULL);
    profile.direct = how && strcmp(how, "direct") == 0;
    profile.rows = calloc((size_t)profile.size, sizeof *profile.rows);
    profile.fetched = calloc((size_t)profile.size, sizeof *profile.fetched);
    profile.level = 1;
    profile.began_unix = unix_time();
    profile.phase_began = profile.began = PMPI_Wtime();
    paused = 0;
}

uint64_t profile_bytes(MPI_Count count, MPI_Datatype type)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    if (size >= 0)
        return (uint64_t)count * (uint64_t)size;
    MPI_Count large = 0;
    PMPI_Type_size_x(type, &large);
    return (uint64_t)count * (uint64_t)large;
}

/* One more message in the row of `world`. */
static void add(Row **rows, int world, uint64_t bytes)
{
    if (!rows[world])
        rows[world] = calloc(1, sizeof *rows[world]);
    int bits = bytes ? 64 - __builtin_clzll(bytes) : 0;
    (*rows[world])[0] += bytes;
    (*rows[world])[1 + (bits < ROW_WORDS - 2 ? bits : ROW_WORDS - 2)]++;
}

void profile_count(int world, uint64_t bytes)
{
    if (world < 0 || world >= profile.size)
        return;
    if (planning) {
        planning->entries = realloc(planning->entries, (size_t)(planning->number + 1) * sizeof *planning->entries);
        planning->entries[planning->number++] = (struct Entry){ world, bytes };
    } else if (!paused) {
        profile_lock();
        add(profile.rows, world, bytes);
        profile_unlock();
    }
}

void profile_count_on(MPI_Comm comm, int rank, uint64_t bytes)
{
    if ((planning || !paused) && rank >= 0) /* not MPI_PROC_NULL or MPI_ROOT */
        profile_count(ranks_of(comm)[rank], bytes);
}

/* `world` has sent this rank a message without having called anything. */
void profile_count_fetched(int world, uint64_t bytes)
{
    if (paused || world < 0 || world >= profile.size)
        return;
    profile_lock();
    add(profile.fetched, world, bytes);
    profile_unlock();
}

/* The present phase is over. */
void profile_next_phase(int level)
{
    double now = PMPI_Wtime();
    Phase *phase = malloc(sizeof *phase);
    profile_lock();
    *phase = (Phase){ profile.level, profile.phase_began, now, profile.rows, profile.fetched, NULL };
    if (profile.last)
        profile.last->next = phase;
    else
        profile.first = phase;
    profile.last = phase;
    profile.rows = calloc((size_t)profile.size, sizeof *profile.rows);
    profile.fetched = calloc((size_t)profile.size, sizeof *profile.fetched);
    profile.level = level;
    profile.phase_began = now;
    profile_unlock();
}

int MPI_Pcontrol(const int level, ...)
{
    if (profile.size && level != 2) {
        profile_next_phase(level);
        paused = level == 0;
    }
    return MPI_SUCCESS;
}

int MPI_Init(int *argc, char ***argv)
{
    int error = PMPI_Init(argc, argv);
    if (error == MPI_SUCCESS)
        profile_begin();
    return error;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int error = PMPI_Init_thread(argc, argv, required, provided);
    if (error == MPI_SUCCESS)
        profile_begin();
    return error;
}

int MPI_Finalize(void)
{
    if (profile.size) {
        paused = 1;
        profile_next_phase(0);
        profile_write();
    }
    return PMPI_Finalize();
}

int MPI_Abort(MPI_Comm comm, int code)
{
    if (profile.size && !paused) {
        paused = 1;
        profile_next_phase(0);
        profile_write_alone(code);
    }
    return PMPI_Abort(comm, code);
}
