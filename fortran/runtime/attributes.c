/*
 * Attributes set in Fortran and read in C, and the other way round (MPI-5.0, 19.3.7).
 *
 * A value that Fortran sets is stored in memory of its own, and the C attribute is that memory's address: so C reads a pointer to
 * the integer, as the standard wants it. A set of these addresses tells them from pointers that C has set, whose address is what
 * Fortran reads. Predefined attributes are pointers to integers too, but for the base of a window.
 */
#include "callbacks.h"
#include "binding.h"
#include <pthread.h>
#include <stdint.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Open addressing; a slot is empty (null), removed, or an address. There are never more than half as many addresses as slots. */
static void **slots;
static size_t capacity, used;
static char removed;

static size_t first_slot(const void *address)
{
    return (size_t)(((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15u >> 20) & (capacity - 1);
}

/* The slot that holds an address, or capacity */
static size_t find(const void *address)
{
    if (capacity == 0)
        return 0;
    for (size_t slot = first_slot(address); slots[slot]; slot = (slot + 1) & (capacity - 1))
        if (slots[slot] == address)
            return slot;
    return capacity;
}

static void enter(void *address)
{
    size_t slot = first_slot(address);
    while (slots[slot])
        slot = (slot + 1) & (capacity - 1);
    slots[slot] = address;
    used++;
}

static void grow(void)
{
    void **old = slots;
    size_t old_capacity = capacity, live = 0;
    for (size_t i = 0; i < old_capacity; i++)
        live += old[i] && old[i] != &removed;
    capacity = 64;
    while (capacity < 4 * (live + 1))
        capacity *= 2;
    slots = allocate(capacity * sizeof *slots);
    memset(slots, 0, capacity * sizeof *slots);
    used = 0;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i] && old[i] != &removed)
            enter(old[i]);
    free(old);
}

/* Stores a value; what C is given as the attribute */
void *stored_attribute(MPI_Aint value)
{
    MPI_Aint *stored = allocate(sizeof *stored);
    *stored = value;
    pthread_mutex_lock(&lock);
    if (2 * (used + 1) > capacity)
        grow();
    enter(stored);
    pthread_mutex_unlock(&lock);
    return stored;
}

/* Frees what stored_attribute has made; nothing else is touched */
void forget_attribute(void *stored)
{
    pthread_mutex_lock(&lock);
    size_t slot = find(stored);
    int known = slot < capacity;
    if (known)
        slots[slot] = &removed;
    pthread_mutex_unlock(&lock);
    if (known)
        free(stored);
}

/* What Fortran reads where C has found a pointer */
MPI_Aint attribute_value(int keyval, void *found)
{
    switch (keyval) {
    case MPI_TAG_UB: case MPI_IO: case MPI_HOST: case MPI_WTIME_IS_GLOBAL: case MPI_APPNUM: case MPI_LASTUSEDCODE:
    case MPI_UNIVERSE_SIZE: case MPI_WIN_DISP_UNIT: case MPI_WIN_CREATE_FLAVOR: case MPI_WIN_MODEL:
        return *(int *)found;
    case MPI_WIN_SIZE:
        return *(MPI_Aint *)found;
    default:
        break;
    }
    pthread_mutex_lock(&lock);
    size_t slot = find(found);
    MPI_Aint value = slot < capacity ? *(MPI_Aint *)found : (MPI_Aint)found;
    pthread_mutex_unlock(&lock);
    return value;
}

static int copy(int object, int keyval, void *state, void *in, void *out, int *flag)
{
    Keyval *key = state;
    MPI_Aint from = attribute_value(keyval, in), to = 0;
    int error = MPI_SUCCESS, old_from = (int)from, old_to = 0, old_state = (int)key->extra_state;
    *flag = 0;
    if (key->copy) {
        key->copy(&object, &keyval, &key->extra_state, &from, &to, flag, &error);
    } else {
        key->old_copy(&object, &keyval, &old_state, &old_from, &old_to, flag, &error);
        to = old_to;
    }
    if (error == MPI_SUCCESS && *flag)
        *(void **)out = stored_attribute(to);
    return error;
}

static int remove_value(int object, int keyval, void *value, void *state)
{
    Keyval *key = state;
    MPI_Aint known = attribute_value(keyval, value);
    int error = MPI_SUCCESS, old_known = (int)known, old_state = (int)key->extra_state;
    if (key->remove)
        key->remove(&object, &keyval, &known, &key->extra_state, &error);
    else
        key->old_remove(&object, &keyval, &old_known, &old_state, &error);
    if (error == MPI_SUCCESS)
        forget_attribute(value);
    return error;
}

int copy_of_comm(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
    return copy(PMPI_Comm_toint(comm), keyval, state, in, out, flag);
}

int copy_of_type(MPI_Datatype datatype, int keyval, void *state, void *in, void *out, int *flag)
{
    return copy(PMPI_Type_toint(datatype), keyval, state, in, out, flag);
}

int copy_of_win(MPI_Win win, int keyval, void *state, void *in, void *out, int *flag)
{
    return copy(PMPI_Win_toint(win), keyval, state, in, out, flag);
}

int delete_of_comm(MPI_Comm comm, int keyval, void *value, void *state)
{
    return remove_value(PMPI_Comm_toint(comm), keyval, value, state);
}

int delete_of_type(MPI_Datatype datatype, int keyval, void *value, void *state)
{
    return remove_value(PMPI_Type_toint(datatype), keyval, value, state);
}

int delete_of_win(MPI_Win win, int keyval, void *value, void *state)
{
    return remove_value(PMPI_Win_toint(win), keyval, value, state);
}
