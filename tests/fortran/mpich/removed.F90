! What programs for MPICH may call and mpif.h of the standard ABI has not: procedures that MPI-3.0 removed, sentinels of newer versions, several user operations.
! Linked without -pie, so that the addresses of variables in common blocks fit into an INTEGER, and those on the stack don't.
#define CHECK(condition) call check(condition, __LINE__)
module operations
  implicit none
contains
  subroutine add_one(in, inout, length, datatype)
    integer :: length, datatype, in(length), inout(length)
    inout = in + inout + 1
  end subroutine

  subroutine add_two(in, inout, length, datatype)
    integer :: length, datatype, in(length), inout(length)
    inout = in + inout + 2
  end subroutine

  subroutine handler(comm, code)
    integer :: comm, code, seen
    common /handlers/ seen
    seen = seen + 1
  end subroutine
end module

program removed
  use operations
  implicit none
  include 'mpif.h'
  integer :: ierror, rank, ranks, failed = 0, all_failed, first, second, there(2)
  integer :: type, extent, lb, ub, errhandler, found, class, seen
  integer :: vector, indexed, values(10), got(10), graph, in, out, size, is_it, op(2), i
  logical :: weighted
  common /places/ first, second
  common /handlers/ seen
  call MPI_INIT(ierror)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)

  call MPI_ADDRESS(first, there(1), ierror)
  call MPI_ADDRESS(second, there(2), ierror)
  CHECK(ierror == MPI_SUCCESS .and. there(2) == there(1) + 4)
  call MPI_TYPE_STRUCT(3, [1, 1, 1], [there(2), there(1), there(1) + 20], [MPI_INTEGER, MPI_INTEGER, MPI_UB], type, ierror)
  call MPI_TYPE_COMMIT(type, ierror)
  first = 10 + rank
  second = 20 + rank
  call MPI_BCAST(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD, ierror)
  CHECK(first == 10 .and. second == 20)
  call MPI_TYPE_EXTENT(type, extent, ierror)
  call MPI_TYPE_LB(type, lb, ierror)
  call MPI_TYPE_UB(type, ub, ierror)
  CHECK(lb == there(1) .and. ub == there(1) + 20 .and. extent == 20)
  call MPI_TYPE_FREE(type, ierror)

  values = [(i, i = 1, 10)]
  got = 0
  call MPI_TYPE_HVECTOR(2, 1, 8, MPI_INTEGER, vector, ierror)
  call MPI_TYPE_COMMIT(vector, ierror)
  call MPI_SENDRECV(values, 1, vector, rank, 0, got, 2, MPI_INTEGER, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  CHECK(got(1) == 1 .and. got(2) == 3)
  call MPI_TYPE_HINDEXED(2, [1, 2], [36, 4], MPI_INTEGER, indexed, ierror)
  call MPI_TYPE_COMMIT(indexed, ierror)
  call MPI_SENDRECV(values, 1, indexed, rank, 0, got, 3, MPI_INTEGER, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  CHECK(all(got(1:3) == [10, 2, 3]))

  call MPI_ERRHANDLER_CREATE(handler, errhandler, ierror)
  call MPI_ERRHANDLER_SET(MPI_COMM_WORLD, errhandler, ierror)
  call MPI_ERRHANDLER_GET(MPI_COMM_WORLD, found, ierror)
  CHECK(found == errhandler)
  seen = 0
  call MPI_SEND(first, 1, MPI_INTEGER, ranks, 0, MPI_COMM_WORLD, ierror)
  CHECK(seen == 1)
  call MPI_ERRHANDLER_SET(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
  call on_the_stack

  ! each operation keeps the program's own function
  call MPI_OP_CREATE(add_one, .true., op(1), ierror)
  call MPI_OP_CREATE(add_two, .true., op(2), ierror)
  do i = 1, 2
    call MPI_ALLREDUCE(rank, values, 1, MPI_INTEGER, op(i), MPI_COMM_WORLD, ierror)
    CHECK(values(1) == ranks * (ranks - 1) / 2 + (ranks - 1) * i)
    call MPI_OP_FREE(op(i), ierror)
  end do

  call MPI_DIST_GRAPH_CREATE_ADJACENT(MPI_COMM_WORLD, 0, values, MPI_WEIGHTS_EMPTY, 0, values, MPI_WEIGHTS_EMPTY, &
      MPI_INFO_NULL, .false., graph, ierror)
  CHECK(ierror == MPI_SUCCESS)
  call MPI_DIST_GRAPH_NEIGHBORS_COUNT(graph, in, out, weighted, ierror)
  CHECK(in == 0 .and. out == 0 .and. weighted)
  call MPI_BUFFER_ATTACH(MPI_BUFFER_AUTOMATIC, 0, ierror)
  CHECK(ierror == MPI_SUCCESS)
  call MPI_BSEND(rank, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, ierror)
  call MPI_RECV(values, 1, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  CHECK(values(1) == rank)
  call MPI_BUFFER_DETACH(values, size, ierror)
  CHECK(ierror == MPI_SUCCESS)

  ! what C knows of Fortran
  call knows_status_ignore(MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, is_it)
  CHECK(is_it == 1)

  call MPI_ALLREDUCE(failed, all_failed, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call MPI_FINALIZE(ierror)
  if (all_failed /= 0) stop 1
contains
  subroutine on_the_stack
    integer :: here
    call MPI_ADDRESS(here, there(1), ierror)
    call MPI_ERROR_CLASS(ierror, class, ierror)
    CHECK(class == MPI_ERR_ARG)
  end subroutine

  subroutine check(good, line)
    logical, intent(in) :: good
    integer, intent(in) :: line
    if (good) return
    failed = failed + 1
    print *, 'line', line, 'failed'
  end subroutine
end program
