! What the old interfaces' tests share: CHECK counts failures, and the end of the program tells all ranks.
! The program sets MPI_INTERFACE to the statement before IMPLICIT NONE and INCLUDE_LINE to the one after it.
#define CHECK(condition) call check(condition, __LINE__)
