! Procedures of MPICH's module mpi_f08 by their external names: array sections as buffers, what refuses them, sentinels.
module sentinels
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  integer(c_int), bind(C, name='MPIR_F08_MPI_IN_PLACE') :: in_place
  integer(c_int), bind(C, name='MPIR_F08_MPI_STATUS_IGNORE_OBJ') :: status_ignore(5)
end module

program sections
  use sentinels
  implicit none
  include 'mpif.h'
  interface
    subroutine MPI_Irecv_f08ts(buf, count, datatype, source, tag, comm, request, ierror)
      type(*), dimension(..), asynchronous :: buf
      integer :: count, datatype, source, tag, comm, request
      integer, optional :: ierror
    end subroutine
    subroutine MPI_Send_f08ts(buf, count, datatype, dest, tag, comm, ierror)
      type(*), dimension(..) :: buf
      integer :: count, datatype, dest, tag, comm
      integer, optional :: ierror
    end subroutine
    subroutine MPI_Bcast_f08ts_large(buf, count, datatype, root, comm, ierror)
      type(*), dimension(..) :: buf
      integer(kind=8) :: count
      integer :: datatype, root, comm
      integer, optional :: ierror
    end subroutine
    subroutine MPI_Allreduce_f08ts(sendbuf, recvbuf, count, datatype, op, comm, ierror)
      type(*), dimension(..) :: sendbuf, recvbuf
      integer :: count, datatype, op, comm
      integer, optional :: ierror
    end subroutine
    subroutine MPI_Wait_f08(request, status, ierror)
      integer :: request, status(5)
      integer, optional :: ierror
    end subroutine
  end interface
  integer :: rank, ranks, ierror, request, failed = 0, all_failed, from, to, i, status(5), count
  integer :: row(6), grid(4, 6), cube(4, 4, 4), values(8)
  character(len=3) :: words(6)
  call MPI_INIT(ierror)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
  to = mod(rank + 1, ranks)
  from = mod(rank + ranks - 1, ranks)

  ! a row is sent and arrives in another row, while the receive is under way and its section no longer exists
  grid = 0
  grid(2, :) = [(100 * rank + i, i = 1, 6)]
  call MPI_Irecv_f08ts(grid(3, :), 6, MPI_INTEGER, from, 1, MPI_COMM_WORLD, request)
  call MPI_Send_f08ts(grid(2, :), 6, MPI_INTEGER, to, 1, MPI_COMM_WORLD)
  call MPI_Wait_f08(request, status)
  call MPI_F_SYNC_REG(grid)
  call check(all(grid(3, :) == [(100 * from + i, i = 1, 6)]), 1)
  call check(all(grid(1, :) == 0) .and. all(grid(4, :) == 0), 2)
  call MPI_GET_COUNT(status, MPI_INTEGER, count, ierror)
  call check(status(MPI_SOURCE) == from .and. count == 6, 3)

  ! backwards, and fewer items than the section has elements
  row = 0
  call MPI_Irecv_f08ts(row(6:1:-1), 4, MPI_INTEGER, from, 2, MPI_COMM_WORLD, request)
  call MPI_Send_f08ts(grid(2, 1:6:2), 2, MPI_INTEGER, to, 2, MPI_COMM_WORLD)
  call MPI_Wait_f08(request, status_ignore)
  call MPI_F_SYNC_REG(row)
  call check(all(row == [0, 0, 0, 0, 100 * from + 3, 100 * from + 1]), 4)

  ! three dimensions, large count
  cube = reshape([(i + 64 * rank, i = 1, 64)], [4, 4, 4])
  call MPI_Bcast_f08ts_large(cube(2:3, 1:4:3, 2:4), 12_8, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call MPI_F_SYNC_REG(cube)
  do i = 1, 64
    call check(cube(1 + mod(i - 1, 4), 1 + mod((i - 1) / 4, 4), 1 + (i - 1) / 16) == merge(i, i + 64 * rank, inside(i)), 100 + i)
  end do

  ! elements of several items
  words = 'old'
  if (rank == 0) words = ['one', 'two', 'thr', 'fou', 'fiv', 'six']
  call MPI_Bcast_f08ts_large(words(1:5:2), 9_8, MPI_BYTE, 0, MPI_COMM_WORLD)
  call MPI_F_SYNC_REG(words)
  call check(words(1) == 'one' .and. words(3) == 'thr' .and. words(5) == 'fiv' .and. (rank == 0 .or. words(2) == 'old'), 5)

  values = rank
  call MPI_Allreduce_f08ts(in_place, values, 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(all(values == ranks * (ranks - 1) / 2), 6)

  ! refused: a reduction, half an element, more items than there are
  call MPI_COMM_SET_ERRHANDLER(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierror)
  ierror = 0
  call MPI_Allreduce_f08ts(values, grid(1, :), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call check(ierror == 1, 7)
  ierror = 0
  call MPI_Send_f08ts(words(1:5:2), 4, MPI_BYTE, to, 3, MPI_COMM_WORLD, ierror)
  call check(ierror == 1, 8)
  ierror = 0
  call MPI_Send_f08ts(grid(1, :), 7, MPI_INTEGER, to, 3, MPI_COMM_WORLD, ierror)
  call check(ierror == 1, 9)

  call MPI_ALLREDUCE(failed, all_failed, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call MPI_FINALIZE(ierror)
  if (all_failed /= 0) stop 1
contains
  logical function inside(n)
    integer, intent(in) :: n
    integer :: x, y, z
    x = 1 + mod(n - 1, 4)
    y = 1 + mod((n - 1) / 4, 4)
    z = 1 + (n - 1) / 16
    inside = (x == 2 .or. x == 3) .and. (y == 1 .or. y == 4) .and. z >= 2
  end function

  subroutine check(good, which)
    logical, intent(in) :: good
    integer, intent(in) :: which
    if (good) return
    failed = failed + 1
    print *, 'check', which, 'failed'
  end subroutine
end program
