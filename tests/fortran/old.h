! Tests of the interfaces with integer handles; the including file says whether by `use mpi` or by mpif.h.
module failures
  implicit none
  integer :: failed = 0
contains
  subroutine check(good, line)
    logical, intent(in) :: good
    integer, intent(in) :: line
    if (good) return
    failed = failed + 1
    print *, 'line', line, 'failed'
  end subroutine
end module

module callbacks
  use failures
  HEADER_USE
  implicit none
  HEADER_INCLUDE
  integer :: copies = 0, deletes = 0, handled = 0, frees = 0
contains
  subroutine copy_attribute(comm, keyval, extra_state, value_in, value_out, flag, ierror)
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    copies = copies + 1
    value_out = value_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete_attribute(comm, keyval, value, extra_state, ierror)
    integer :: comm, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    CHECK(extra_state == 1000)
    deletes = deletes + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine old_copy(comm, keyval, extra_state, value_in, value_out, flag, ierror)
    integer :: comm, keyval, extra_state, value_in, value_out, ierror
    logical :: flag
    value_out = value_in * extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine old_delete(comm, keyval, value, extra_state, ierror)
    integer :: comm, keyval, value, extra_state, ierror
    deletes = deletes + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine handler(comm, code)
    integer :: comm, code
    integer :: class, ierror
    call MPI_ERROR_CLASS(code, class, ierror)
    CHECK(class == MPI_ERR_RANK)
    CHECK(comm == MPI_COMM_WORLD)
    handled = handled + 1
  end subroutine

  subroutine larger_modulus(in, inout, length, datatype)
    integer :: length, datatype, in(length), inout(length)
    integer :: i
    CHECK(datatype == MPI_INTEGER)
    do i = 1, length
      if (abs(in(i)) > abs(inout(i))) inout(i) = in(i)
    end do
  end subroutine

  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: status(MPI_STATUS_SIZE), ierror
    call MPI_STATUS_SET_ELEMENTS(status, MPI_INTEGER, int(extra_state), ierror)
    call MPI_STATUS_SET_CANCELLED(status, .false., ierror)
    status(MPI_SOURCE) = 5
    status(MPI_TAG) = 6
    ierror = MPI_SUCCESS
  end subroutine

  subroutine release(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    frees = frees + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancelled(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine
end module

program old
  use callbacks
  use failures
  implicit none
  integer :: ierror, rank, ranks, all_failed, peer
  call MPI_INIT(ierror)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
  peer = mod(rank + 1, ranks)
  call point_to_point
  call completions
  call collectives
  call strings
  call attributes
  call functions
  call topologies
  call datatypes
  call memory
  call MPI_ALLREDUCE(failed, all_failed, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call MPI_FINALIZE(ierror)
  if (all_failed /= 0) stop 1
contains
  subroutine point_to_point
    integer :: status(MPI_STATUS_SIZE), request, value, count, source
    double precision :: x(100), y(100), grid(10, 10), row(10)
    integer :: i
    source = mod(rank + ranks - 1, ranks)
    x = [(dble(i + rank), i = 1, 100)]
    call MPI_ISEND(x, 100, MPI_DOUBLE_PRECISION, peer, 7, MPI_COMM_WORLD, request, ierror)
    call MPI_RECV(y, 100, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierror)
    CHECK(ierror == MPI_SUCCESS)
    CHECK(status(MPI_SOURCE) == source)
    CHECK(status(MPI_TAG) == 7)
    CHECK(y(100) == dble(100 + source))
    call MPI_GET_COUNT(status, MPI_DOUBLE_PRECISION, count, ierror)
    CHECK(count == 100)
    call MPI_WAIT(request, MPI_STATUS_IGNORE, ierror)
    CHECK(request == MPI_REQUEST_NULL)
    call MPI_SENDRECV(rank, 1, MPI_INTEGER, peer, 1, value, 1, MPI_INTEGER, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    CHECK(value == source)
    ! a row isn't contiguous: the compiler copies it
    grid = 0
    row = dble(rank)
    grid(3, :) = row
    call MPI_SENDRECV(grid(3, :), 10, MPI_DOUBLE_PRECISION, peer, 2, row, 10, MPI_DOUBLE_PRECISION, source, 2, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    CHECK(all(row == dble(source)))
    call MPI_RECV(y, 100, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 0, MPI_COMM_WORLD, status, ierror)
    CHECK(status(MPI_SOURCE) == MPI_PROC_NULL)
  end subroutine

  subroutine completions
    integer, parameter :: n = 50
    integer :: requests(2 * n), statuses(MPI_STATUS_SIZE, 2 * n), in(n), out(n), indices(2 * n), seen(n), i, index, done
    logical :: flag
    do i = 1, n
      out(i) = 1000 * rank + i
      call MPI_IRECV(in(i), 1, MPI_INTEGER, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, requests(i), ierror)
    end do
    call MPI_TESTALL(n, requests, flag, MPI_STATUSES_IGNORE, ierror)
    CHECK(.not. flag)
    call MPI_BARRIER(MPI_COMM_WORLD, ierror)
    do i = 1, n
      call MPI_ISEND(out(i), 1, MPI_INTEGER, peer, i, MPI_COMM_WORLD, requests(n + i), ierror)
    end do
    call MPI_WAITALL(2 * n, requests, statuses, ierror)
    CHECK(all(requests == MPI_REQUEST_NULL))
    do i = 1, n
      CHECK(statuses(MPI_TAG, i) == i)
      CHECK(mod(in(i), 1000) == i)
    end do
    do i = 1, n
      call MPI_IRECV(in(i), 1, MPI_INTEGER, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, requests(i), ierror)
      call MPI_ISEND(out(i), 1, MPI_INTEGER, peer, i, MPI_COMM_WORLD, requests(n + i), ierror)
    end do
    call MPI_WAITALL(n, requests(n + 1:), MPI_STATUSES_IGNORE, ierror)
    call MPI_WAITANY(n, requests, index, statuses(:, 1), ierror)
    CHECK(index >= 1 .and. index <= n)
    CHECK(statuses(MPI_TAG, 1) == index)
    seen = 0
    seen(index) = 1
    do
      call MPI_WAITSOME(n, requests, done, indices, statuses, ierror)
      if (done == MPI_UNDEFINED) exit
      do i = 1, done
        CHECK(statuses(MPI_TAG, i) == indices(i))
        seen(indices(i)) = seen(indices(i)) + 1
      end do
    end do
    CHECK(all(seen == 1))
    call MPI_WAITANY(n, requests, index, MPI_STATUS_IGNORE, ierror)
    CHECK(index == MPI_UNDEFINED)
    call MPI_TESTANY(n, requests, index, flag, MPI_STATUS_IGNORE, ierror)
    CHECK(flag .and. index == MPI_UNDEFINED)
  end subroutine

  subroutine collectives
    integer :: sums(3), counts(ranks), displs(ranks), types(ranks), i
    integer :: gathered(ranks), bytes(ranks)
    logical :: any_true, mine
    double precision :: pair(2), best(2)
    sums = [1, 2, rank]
    call MPI_ALLREDUCE(MPI_IN_PLACE, sums, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(sums(1) == ranks .and. sums(3) == ranks * (ranks - 1) / 2)
    mine = rank == 0
    call MPI_ALLREDUCE(mine, any_true, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierror)
    CHECK(any_true .eqv. ranks == 1)
    call MPI_ALLREDUCE(mine, any_true, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
    CHECK(any_true)
    pair = [dble(-rank), dble(rank)]
    call MPI_ALLREDUCE(pair, best, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, MPI_COMM_WORLD, ierror)
    CHECK(best(1) == 0 .and. best(2) == 0)
    gathered = -1
    counts = 1
    displs = [(i - 1, i = 1, ranks)]
    call MPI_ALLGATHERV(rank, 1, MPI_INTEGER, gathered, counts, displs, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    CHECK(all(gathered == displs))
    types = MPI_INTEGER
    bytes = 4 * displs
    counts = 1
    sums = 0
    call MPI_ALLTOALLW(displs, counts, bytes, types, gathered, counts, bytes, types, MPI_COMM_WORLD, ierror)
    CHECK(all(gathered == rank))
    CHECK(MPI_WTIME() > 0 .and. MPI_WTICK() > 0)
    CHECK(MPI_AINT_DIFF(MPI_AINT_ADD(5_MPI_ADDRESS_KIND, 7_MPI_ADDRESS_KIND), 2_MPI_ADDRESS_KIND) == 10)
  end subroutine

  subroutine strings
    character(len=MPI_MAX_PROCESSOR_NAME) :: name
    character(len=MPI_MAX_OBJECT_NAME) :: object
    character(len=3) :: short
    character(len=20) :: value
    character(len=MPI_MAX_ERROR_STRING) :: message
    integer :: length, info, keys
    logical :: flag
    name = repeat('x', len(name))
    call MPI_GET_PROCESSOR_NAME(name, length, ierror)
    CHECK(length > 0 .and. len_trim(name) == length)
    call MPI_COMM_SET_NAME(MPI_COMM_WORLD, 'the  world   ', ierror)
    call MPI_COMM_GET_NAME(MPI_COMM_WORLD, object, length, ierror)
    CHECK(object == 'the  world' .and. length == 10)
    call MPI_COMM_GET_NAME(MPI_COMM_WORLD, short, length, ierror)
    CHECK(short == 'the')
    call MPI_ERROR_STRING(MPI_ERR_TRUNCATE, message, length, ierror)
    CHECK(len_trim(message) == length .and. length > 0)
    call MPI_INFO_CREATE(info, ierror)
    call MPI_INFO_SET(info, '  key ', ' some value  ', ierror)
    call MPI_INFO_GET_NKEYS(info, keys, ierror)
    CHECK(keys == 1)
    call MPI_INFO_GET_NTHKEY(info, 0, object, ierror)
    CHECK(object == 'key')
    call MPI_INFO_GET(info, 'key', 20, value, flag, ierror)
    CHECK(flag .and. value == 'some value')
    value = 'unchanged'
    call MPI_INFO_GET(info, 'other', 20, value, flag, ierror)
    CHECK(.not. flag .and. value == 'unchanged')
    length = len(value)
    call MPI_INFO_GET_STRING(info, 'key', length, value, flag, ierror)
    CHECK(flag .and. length == 10 .and. value == 'some value')
    length = 0
    call MPI_INFO_GET_STRING(info, 'key', length, value, flag, ierror)
    CHECK(flag .and. length == 10)
    call MPI_INFO_GET_VALUELEN(info, 'key', length, flag, ierror)
    CHECK(flag .and. length == 10)
    call MPI_INFO_FREE(info, ierror)
    CHECK(info == MPI_INFO_NULL)
  end subroutine

  subroutine attributes
    integer :: keyval, old_keyval, comm, old_value
    integer(kind=MPI_ADDRESS_KIND) :: value, state
    logical :: flag
    call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
    CHECK(flag .and. value >= 32767)
    call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, old_value, flag, ierror)
    CHECK(flag .and. old_value == value)
    state = 1000
    call MPI_COMM_CREATE_KEYVAL(copy_attribute, delete_attribute, keyval, state, ierror)
    call MPI_COMM_SET_ATTR(MPI_COMM_WORLD, keyval, 2_MPI_ADDRESS_KIND**40, ierror)
    call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, keyval, value, flag, ierror)
    CHECK(flag .and. value == 2_MPI_ADDRESS_KIND**40)
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierror)
    CHECK(copies == 1)
    call MPI_COMM_GET_ATTR(comm, keyval, value, flag, ierror)
    CHECK(flag .and. value == 2_MPI_ADDRESS_KIND**40 + 1000)
    call MPI_COMM_FREE(comm, ierror)
    CHECK(deletes == 1)
    call MPI_COMM_DELETE_ATTR(MPI_COMM_WORLD, keyval, ierror)
    CHECK(deletes == 2)
    call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, keyval, value, flag, ierror)
    CHECK(.not. flag)
    call MPI_COMM_FREE_KEYVAL(keyval, ierror)
    CHECK(keyval == MPI_KEYVAL_INVALID)
    call MPI_KEYVAL_CREATE(old_copy, old_delete, old_keyval, 3, ierror)
    call MPI_ATTR_PUT(MPI_COMM_SELF, old_keyval, -7, ierror)
    call MPI_COMM_DUP(MPI_COMM_SELF, comm, ierror)
    call MPI_ATTR_GET(comm, old_keyval, old_value, flag, ierror)
    CHECK(flag .and. old_value == -21)
    call MPI_COMM_FREE(comm, ierror)
    call MPI_ATTR_DELETE(MPI_COMM_SELF, old_keyval, ierror)
    CHECK(deletes == 4)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, state, ierror)
    call MPI_COMM_SET_ATTR(MPI_COMM_SELF, keyval, -1_MPI_ADDRESS_KIND, ierror)
    call MPI_COMM_DUP(MPI_COMM_SELF, comm, ierror)
    call MPI_COMM_GET_ATTR(comm, keyval, value, flag, ierror)
    CHECK(flag .and. value == -1)
    call MPI_COMM_FREE(comm, ierror)
    call MPI_COMM_GET_ATTR(MPI_COMM_SELF, keyval, value, flag, ierror)
    CHECK(flag .and. value == -1)
    call MPI_COMM_DELETE_ATTR(MPI_COMM_SELF, keyval, ierror)
  end subroutine

  subroutine functions
    integer :: op, values(2), result(2), errhandler, request, status(MPI_STATUS_SIZE), count, buffer, class
    logical :: commutes
    call MPI_OP_CREATE(larger_modulus, .true., op, ierror)
    call MPI_OP_COMMUTATIVE(op, commutes, ierror)
    CHECK(commutes)
    values = [-rank, rank]
    call MPI_ALLREDUCE(values, result, 2, MPI_INTEGER, op, MPI_COMM_WORLD, ierror)
    CHECK(result(1) == 1 - ranks .and. result(2) == ranks - 1)
    call MPI_OP_FREE(op, ierror)
    CHECK(op == MPI_OP_NULL)
    call MPI_COMM_CREATE_ERRHANDLER(handler, errhandler, ierror)
    call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, errhandler, ierror)
    call MPI_SEND(buffer, 1, MPI_INTEGER, ranks + 7, 0, MPI_COMM_WORLD, ierror)
    CHECK(handled == 1)
    call MPI_ERRHANDLER_FREE(errhandler, ierror)
    call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
    call MPI_SEND(buffer, 1, MPI_INTEGER, ranks + 7, 0, MPI_COMM_WORLD, ierror)
    call MPI_ERROR_CLASS(ierror, class, ierror)
    CHECK(class == MPI_ERR_RANK .and. handled == 1)
    call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, ierror)
    call MPI_GREQUEST_START(query, release, cancelled, 42_MPI_ADDRESS_KIND, request, ierror)
    call MPI_GREQUEST_COMPLETE(request, ierror)
    call MPI_WAIT(request, status, ierror)
    call MPI_GET_ELEMENTS(status, MPI_INTEGER, count, ierror)
    CHECK(count == 42 .and. status(MPI_SOURCE) == 5 .and. status(MPI_TAG) == 6)
    CHECK(frees == 1)
  end subroutine

  subroutine topologies
    integer :: cart, line, dims(2), coords(2), there(1), source, dest, graph, indegree, outdegree, in(1), out(1)
    integer :: weights(1), group, subgroup, ranges(3, 1), size
    logical :: periods(2), found(2), weighted
    dims = [ranks, 1]
    periods = [.true., .false.]
    call MPI_CART_CREATE(MPI_COMM_WORLD, 2, dims, periods, .false., cart, ierror)
    found = .true.
    call MPI_CART_GET(cart, 2, dims, found, coords, ierror)
    CHECK(found(1) .and. .not. found(2))
    CHECK(coords(1) == rank .and. coords(2) == 0)
    call MPI_CART_SHIFT(cart, 0, 1, source, dest, ierror)
    CHECK(dest == peer)
    call MPI_CART_SHIFT(cart, 1, 1, source, dest, ierror)
    CHECK(source == MPI_PROC_NULL .and. dest == MPI_PROC_NULL)
    call MPI_CART_SUB(cart, [.true., .false.], line, ierror)
    call MPI_CART_COORDS(line, rank, 1, there, ierror)
    CHECK(there(1) == rank)
    call MPI_COMM_FREE(line, ierror)
    call MPI_COMM_FREE(cart, ierror)
    call MPI_DIST_GRAPH_CREATE_ADJACENT(MPI_COMM_WORLD, 1, [mod(rank + ranks - 1, ranks)], MPI_UNWEIGHTED, 1, [peer], &
        MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph, ierror)
    call MPI_DIST_GRAPH_NEIGHBORS_COUNT(graph, indegree, outdegree, weighted, ierror)
    CHECK(indegree == 1 .and. outdegree == 1 .and. .not. weighted)
    call MPI_DIST_GRAPH_NEIGHBORS(graph, 1, in, weights, 1, out, MPI_UNWEIGHTED, ierror)
    CHECK(out(1) == peer)
    call MPI_COMM_FREE(graph, ierror)
    call MPI_COMM_GROUP(MPI_COMM_WORLD, group, ierror)
    ranges(:, 1) = [ranks - 1, 0, -1]
    call MPI_GROUP_RANGE_INCL(group, 1, ranges, subgroup, ierror)
    call MPI_GROUP_SIZE(subgroup, size, ierror)
    CHECK(size == ranks)
    call MPI_GROUP_FREE(subgroup, ierror)
    call MPI_GROUP_FREE(group, ierror)
  end subroutine

  subroutine datatypes
    integer :: pair, blocks(2), types(2), ints(10), size, combiner, counts(3), part, i, status(MPI_STATUS_SIZE)
    integer(kind=MPI_ADDRESS_KIND) :: displs(2), lb, extent, addresses(10), contents(2)
    double precision :: x, grid(4, 4), column(2)
    integer :: n, found(2)
    call MPI_GET_ADDRESS(n, displs(1), ierror)
    call MPI_GET_ADDRESS(x, displs(2), ierror)
    blocks = 1
    types = [MPI_INTEGER, MPI_DOUBLE_PRECISION]
    call MPI_TYPE_CREATE_STRUCT(2, blocks, displs, types, pair, ierror)
    call MPI_TYPE_COMMIT(pair, ierror)
    n = rank
    x = rank + 0.5d0
    ! the compiler must not keep what is reached by MPI_BOTTOM in registers
    call MPI_F_SYNC_REG(n)
    call MPI_F_SYNC_REG(x)
    call MPI_BCAST(MPI_BOTTOM, 1, pair, 0, MPI_COMM_WORLD, ierror)
    call MPI_F_SYNC_REG(n)
    call MPI_F_SYNC_REG(x)
    CHECK(n == 0 .and. x == 0.5d0)
    call MPI_TYPE_GET_ENVELOPE(pair, counts(1), counts(2), counts(3), combiner, ierror)
    CHECK(combiner == MPI_COMBINER_STRUCT .and. counts(3) == 2)
    call MPI_TYPE_GET_CONTENTS(pair, 10, 2, 2, ints, contents, found, ierror)
    CHECK(all(found == types) .and. all(contents == displs))
    call MPI_TYPE_FREE(pair, ierror)
    CHECK(pair == MPI_DATATYPE_NULL)
    call MPI_TYPE_CREATE_SUBARRAY(2, [4, 4], [2, 1], [1, 2], MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, part, ierror)
    call MPI_TYPE_COMMIT(part, ierror)
    grid = reshape([(dble(i), i = 1, 16)], [4, 4])
    call MPI_SENDRECV(grid, 1, part, rank, 0, column, 2, MPI_DOUBLE_PRECISION, rank, 0, MPI_COMM_WORLD, status, ierror)
    CHECK(column(1) == grid(2, 3) .and. column(2) == grid(3, 3))
    call MPI_TYPE_GET_EXTENT(part, lb, extent, ierror)
    CHECK(lb == 0 .and. extent == 128)
    call MPI_TYPE_FREE(part, ierror)
    call MPI_TYPE_CREATE_F90_REAL(12, 100, part, ierror)
    call MPI_TYPE_SIZE(part, size, ierror)
    CHECK(size == 8)
    call MPI_TYPE_MATCH_SIZE(MPI_TYPECLASS_INTEGER, 8, part, ierror)
    CHECK(part == MPI_INTEGER8)
    addresses = 0
  end subroutine

  subroutine memory
    character :: buffer(4000)
    integer :: size, value, win, disp, file
    integer(kind=MPI_ADDRESS_KIND) :: base, bytes
    integer(kind=MPI_OFFSET_KIND) :: offset
    integer :: numbers(4), window(2)
    logical :: flag
    call MPI_BUFFER_ATTACH(buffer, 4000, ierror)
    call MPI_BSEND(rank, 1, MPI_INTEGER, rank, 3, MPI_COMM_WORLD, ierror)
    call MPI_RECV(value, 1, MPI_INTEGER, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    CHECK(value == rank)
    call MPI_BUFFER_DETACH(buffer, size, ierror)
    CHECK(size == 4000)
    bytes = 8
    window = -1
    call MPI_WIN_CREATE(window, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_WIN_FENCE(0, win, ierror)
    disp = 1
    call MPI_PUT(rank, 1, MPI_INTEGER, peer, int(disp, MPI_ADDRESS_KIND), 1, MPI_INTEGER, win, ierror)
    call MPI_WIN_FENCE(0, win, ierror)
    call MPI_F_SYNC_REG(window)
    CHECK(window(1) == -1 .and. window(2) == mod(rank + ranks - 1, ranks))
    call MPI_WIN_GET_ATTR(win, MPI_WIN_SIZE, bytes, flag, ierror)
    CHECK(flag .and. bytes == 8)
    call MPI_WIN_GET_ATTR(win, MPI_WIN_DISP_UNIT, bytes, flag, ierror)
    CHECK(flag .and. bytes == 4)
    call MPI_WIN_GET_ATTR(win, MPI_WIN_BASE, base, flag, ierror)
    call MPI_GET_ADDRESS(window, bytes, ierror)
    CHECK(flag .and. base == bytes)
    call MPI_WIN_FREE(win, ierror)
    call MPI_ALLOC_MEM(64_MPI_ADDRESS_KIND, MPI_INFO_NULL, base, ierror)
    CHECK(base /= 0)
    call MPI_FILE_OPEN(MPI_COMM_SELF, 'numbers-' // char(ichar('a') + rank) // '  ', MPI_MODE_CREATE + MPI_MODE_RDWR + &
        MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
    CHECK(ierror == MPI_SUCCESS)
    offset = 4
    call MPI_FILE_SET_VIEW(file, offset, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
    call MPI_FILE_WRITE(file, [1, 2, 3, 4], 4, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    offset = 1
    call MPI_FILE_READ_AT(file, offset, numbers, 3, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    CHECK(all(numbers(1:3) == [2, 3, 4]))
    call MPI_FILE_GET_SIZE(file, offset, ierror)
    CHECK(offset == 20)
    call MPI_FILE_CLOSE(file, ierror)
    CHECK(file == MPI_FILE_NULL)
  end subroutine
end program
