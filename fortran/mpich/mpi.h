/*
 * The binary interface of MPICH, as far as the Fortran layer needs it: types, numbers that runtime/ names, and the prototypes of our mpi.h,
 * which fortran/mpich.py takes over. Only libmpifort.so.12 is compiled with it; programs have MPICH's own header (decisions 0046, 0057).
 */
#ifndef FERRULE_FORTRAN_MPICH_H
#define FERRULE_FORTRAN_MPICH_H

#include <stdint.h>

/* Which common blocks and names the files of runtime/ use */
#define MPICH_ABI 1

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset, MPI_Count;
typedef int MPI_Fint;

/* The same five words in C and Fortran */
typedef struct {
  int count_lo;
  int count_hi_and_cancelled;
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
} MPI_Status;
enum { MPI_F_STATUS_SIZE = 5 };

/* Handles: Fortran's integers, but for files */
typedef int MPI_Comm, MPI_Group, MPI_Session, MPI_Win, MPI_Request, MPI_Message, MPI_Info, MPI_Errhandler, MPI_Op, MPI_Datatype;
typedef struct MPICH_File *MPI_File;

#define MPI_COMM_NULL       ((MPI_Comm) 0x04000000)
#define MPI_COMM_WORLD      ((MPI_Comm) 0x44000000)
#define MPI_COMM_SELF       ((MPI_Comm) 0x44000001)
#define MPI_GROUP_NULL      ((MPI_Group) 0x08000000)
#define MPI_SESSION_NULL    ((MPI_Session) 0x38000000)
#define MPI_WIN_NULL        ((MPI_Win) 0x20000000)
#define MPI_FILE_NULL       ((MPI_File) 0)
#define MPI_REQUEST_NULL    ((MPI_Request) 0x2c000000)
#define MPI_MESSAGE_NULL    ((MPI_Message) 0x2c000000)
#define MPI_INFO_NULL       ((MPI_Info) 0x1c000000)
#define MPI_ERRHANDLER_NULL ((MPI_Errhandler) 0x14000000)
#define MPI_OP_NULL         ((MPI_Op) 0x18000000)
#define MPI_DATATYPE_NULL   ((MPI_Datatype) 0x0c000000)

#define MPI_BOTTOM           ((void *) 0)
#define MPI_IN_PLACE         ((void *) -1)
#define MPI_BUFFER_AUTOMATIC ((void *) -2)
#define MPI_STATUS_IGNORE    ((MPI_Status *) 1)
#define MPI_STATUSES_IGNORE  ((MPI_Status *) 1)
#define MPI_ERRCODES_IGNORE  ((int *) 0)
#define MPI_ARGV_NULL        ((char **) 0)
#define MPI_ARGVS_NULL       ((char ***) 0)

/* Variables of the C library */
extern int *MPI_UNWEIGHTED, *MPI_WEIGHTS_EMPTY;
extern MPI_Fint *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;

enum { MPI_SUCCESS = 0, MPI_ERR_BUFFER = 1, MPI_ERR_ARG = 12, MPI_ERR_INTERN = 16, MPI_ERR_CONVERSION = 23 };
enum { MPI_UNDEFINED = -32766 };
enum { MPI_GRAPH = 1, MPI_CART = 2, MPI_DIST_GRAPH = 3 };

/* Lengths of strings with the terminating null character */
enum {
  MPI_MAX_DATAREP_STRING = 128,
  MPI_MAX_ERROR_STRING = 512,
  MPI_MAX_INFO_KEY = 255,
  MPI_MAX_LIBRARY_VERSION_STRING = 8192,
  MPI_MAX_OBJECT_NAME = 128,
  MPI_MAX_PORT_NAME = 256,
  MPI_MAX_PROCESSOR_NAME = 128
};

/* Keys of predefined attributes in C: odd. Each one's even neighbour is the key in Fortran (runtime/binding.h) */
enum {
  MPI_TAG_UB = 0x64400001,
  MPI_HOST = 0x64400003,
  MPI_IO = 0x64400005,
  MPI_WTIME_IS_GLOBAL = 0x64400007,
  MPI_UNIVERSE_SIZE = 0x64400009,
  MPI_LASTUSEDCODE = 0x6440000b,
  MPI_APPNUM = 0x6440000d,
  MPI_WIN_BASE = 0x66000001,
  MPI_WIN_SIZE = 0x66000003,
  MPI_WIN_DISP_UNIT = 0x66000005,
  MPI_WIN_CREATE_FLAVOR = 0x66000007,
  MPI_WIN_MODEL = 0x66000009
};

#define MPI_CONVERSION_FN_NULL   ((MPI_Datarep_conversion_function *) 0)
#define MPI_CONVERSION_FN_NULL_C ((MPI_Datarep_conversion_function_c *) 0)

#include "prototypes.h"

/* Removed by MPI-3.0 */
int MPI_Type_struct(int count, const int lengths[], const MPI_Aint displacements[], const MPI_Datatype types[], MPI_Datatype *newtype);
int PMPI_Type_struct(int count, const int lengths[], const MPI_Aint displacements[], const MPI_Datatype types[], MPI_Datatype *newtype);

/* Failure mitigation (decision 0053) */
int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
int MPIX_Comm_agree(MPI_Comm comm, int *flag);
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failed);
int PMPIX_Comm_revoke(MPI_Comm comm);
int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
int PMPIX_Comm_agree(MPI_Comm comm, int *flag);
int PMPIX_Comm_failure_ack(MPI_Comm comm);
int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failed);

#endif
