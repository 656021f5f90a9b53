! The module mpi_f08: handles as types, absent error codes, large counts, callbacks, strings, C and Fortran together.
module callbacks
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  type(MPI_Datatype) :: kept = MPI_DATATYPE_NULL
  integer :: failed = 0, copies = 0, deletes = 0, handled = 0, frees = 0
contains
  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (good) return
    failed = failed + 1
    print *, 'failed: ', what
  end subroutine

  subroutine copy_attribute(oldtype, type_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Datatype) :: oldtype
    integer :: type_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    call check(oldtype == kept, 'the datatype whose attribute is copied')
    copies = copies + 1
    call check(type_keyval /= MPI_KEYVAL_INVALID, 'key of a copied attribute')
    attribute_val_out = attribute_val_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete_attribute(datatype, type_keyval, attribute_val, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer :: type_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    call check(datatype /= MPI_DATATYPE_NULL .and. extra_state == 5 .and. attribute_val >= 10, 'deleting an attribute')
    deletes = deletes + 1
    call check(type_keyval /= MPI_KEYVAL_INVALID, 'key of a deleted attribute')
    ierror = MPI_SUCCESS
  end subroutine

  subroutine handler(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code, class
    call MPI_Error_class(error_code, class)
    call check(comm == MPI_COMM_SELF .and. class == MPI_ERR_TAG, 'arguments of an error handler')
    handled = handled + 1
  end subroutine

  subroutine add(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call check(datatype == MPI_INTEGER, 'datatype of a user operation')
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
  end subroutine

  subroutine add_large(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(kind=MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call check(datatype == MPI_INTEGER, 'datatype of a user operation with large counts')
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
  end subroutine

  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_BYTE, int(extra_state, MPI_COUNT_KIND))
    call MPI_Status_set_cancelled(status, .true.)
    status%MPI_SOURCE = 3
    status%MPI_TAG = 4
    ierror = MPI_SUCCESS
  end subroutine

  subroutine release(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    frees = frees + int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancelled(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    call check(.not. complete .and. extra_state == 9, 'cancelling a generalized request')
    ierror = MPI_SUCCESS
  end subroutine
end module

program use_f08
  use callbacks
  implicit none
  interface
    ! The C functions themselves: what they see of values that Fortran has set
    function c_comm(handle) bind(c, name='MPI_Comm_fromint')
      import
      integer(c_int), value :: handle
      type(c_ptr) :: c_comm
    end function
    function c_get_attr(comm, keyval, value, flag) bind(c, name='MPI_Comm_get_attr')
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: keyval
      type(c_ptr) :: value
      integer(c_int) :: flag, c_get_attr
    end function
    function c_set_attr(comm, keyval, value) bind(c, name='MPI_Comm_set_attr')
      import
      type(c_ptr), value :: comm, value
      integer(c_int), value :: keyval
      integer(c_int) :: c_set_attr
    end function
  end interface
  integer :: rank, ranks, provided, all_failed
  call MPI_Init_thread(MPI_THREAD_SINGLE, provided)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call point_to_point
  call large_counts
  call reductions
  call attributes
  call errors_and_requests
  call memory_and_windows
  call files
  call strings_and_sizes
  call MPI_Allreduce(failed, all_failed, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (all_failed /= 0) stop 1
contains
  subroutine point_to_point
    type(MPI_Request) :: requests(4)
    type(MPI_Status) :: status, statuses(4)
    type(MPI_Message) :: message
    type(MPI_Group) :: group
    integer :: values(2), old(MPI_STATUS_SIZE), i, index, count, ierror, right, left, grid(6, 4), column(4)
    logical :: flag
    right = mod(rank + 1, ranks)
    left = mod(rank + ranks - 1, ranks)
    do i = 1, 2
      call MPI_Irecv(values(i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i))
      call MPI_Isend(rank, 1, MPI_INTEGER, right, i, MPI_COMM_WORLD, requests(2 + i), ierror)
      call check(ierror == MPI_SUCCESS, 'error code of MPI_Isend')
    end do
    call MPI_Waitall(4, requests, statuses)
    call check(all(requests == MPI_REQUEST_NULL), 'MPI_Waitall frees its requests')
    call check(all(values == left) .and. statuses(2)%MPI_TAG == 2 .and. statuses(1)%MPI_SOURCE == left, 'MPI_Waitall')
    call MPI_Isend(rank, 1, MPI_INTEGER, right, 9, MPI_COMM_WORLD, requests(2))
    call MPI_Mprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, message, status)
    call MPI_Mrecv(values(1), 1, MPI_INTEGER, message, MPI_STATUS_IGNORE)
    call check(values(1) == left .and. message == MPI_MESSAGE_NULL, 'a matched message')
    requests(1) = MPI_REQUEST_NULL
    call MPI_Waitany(2, requests(1:2), index, status)
    call check(index == 2, 'index of MPI_Waitany')
    call MPI_Testany(2, requests(1:2), index, flag, MPI_STATUS_IGNORE)
    call check(flag .and. index == MPI_UNDEFINED, 'MPI_Testany of null requests')
    ! keywords, and an array section that isn't contiguous
    grid = 0
    grid(2, :) = rank
    call MPI_Sendrecv(sendbuf=grid(2, :), sendcount=4, sendtype=MPI_INTEGER, dest=right, sendtag=3, recvbuf=column, &
        recvcount=4, recvtype=MPI_INTEGER, source=left, recvtag=3, comm=MPI_COMM_WORLD, status=status)
    call check(all(column == left), 'a row of an array')
    call MPI_Recv(grid(5, :), 4, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, status)
    call MPI_Sendrecv(column, 4, MPI_INTEGER, right, 4, grid(4, :), 4, MPI_INTEGER, left, 4, MPI_COMM_WORLD, status)
    call check(all(grid(4, :) == mod(left + ranks - 1, ranks)), 'receiving into a row')
    call MPI_Get_count(status, MPI_INTEGER, count)
    call check(count == 4 .and. status%MPI_SOURCE == left .and. status%MPI_TAG == 4, 'status')
    call MPI_Status_f082f(status, old)
    call check(old(MPI_SOURCE) == left .and. old(MPI_TAG) == 4, 'MPI_Status_f082f')
    call MPI_Status_f2f08(old, statuses(1))
    call MPI_Get_count(statuses(1), MPI_INTEGER, count)
    call check(count == 4, 'MPI_Status_f2f08')
    call MPI_Comm_group(MPI_COMM_WORLD, group)
    call check(group /= MPI_GROUP_EMPTY .and. group%MPI_VAL /= MPI_GROUP_NULL%MPI_VAL, 'handles')
    call MPI_Group_free(group)
    call check(group == MPI_GROUP_NULL, 'a freed group')
  end subroutine

  subroutine large_counts
    integer(kind=MPI_COUNT_KIND) :: n, count, size, displs(ranks), counts(ranks)
    integer(kind=MPI_ADDRESS_KIND) :: places(ranks)
    type(MPI_Datatype) :: vector
    type(MPI_Status) :: status
    real :: x(8), all_x(8 * ranks)
    integer :: i
    n = 8
    x = real(rank)
    call MPI_Sendrecv(x, n, MPI_REAL, rank, 0, all_x, n, MPI_REAL, rank, 0, MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_REAL, count)
    call check(count == 8, 'MPI_Get_count with a large count')
    counts = 8
    places = [(8 * (i - 1), i = 1, ranks)]
    call MPI_Allgatherv(x, n, MPI_REAL, all_x, counts, places, MPI_REAL, MPI_COMM_WORLD)
    call check(all_x(8 * ranks) == real(ranks - 1), 'MPI_Allgatherv with large counts')
    call MPI_Type_vector(2_MPI_COUNT_KIND**33, 1_MPI_COUNT_KIND, 2_MPI_COUNT_KIND, MPI_REAL, vector)
    call MPI_Type_size(vector, size)
    call check(size == 2_MPI_COUNT_KIND**35, 'a datatype of 32 GiB')
    call MPI_Type_free(vector)
    displs = 0
  end subroutine

  subroutine reductions
    type(MPI_Op) :: op
    integer :: sums(3), result(3), expected
    expected = ranks * (ranks - 1) / 2
    call MPI_Op_create(add, .true., op)
    sums = rank
    call MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_INTEGER, op, MPI_COMM_WORLD)
    call check(all(sums == expected), 'a user operation')
    call MPI_Op_free(op)
    call check(op == MPI_OP_NULL, 'a freed operation')
    call MPI_Op_create_c(add_large, .false., op)
    sums = rank
    call MPI_Allreduce(sums, result, 3_MPI_COUNT_KIND, MPI_INTEGER, op, MPI_COMM_WORLD)
    call check(all(result == expected), 'a user operation with large counts')
    call MPI_Op_free(op)
  end subroutine

  subroutine attributes
    integer :: keyval, comm_keyval
    type(MPI_Datatype) :: copy
    integer(kind=MPI_ADDRESS_KIND) :: value
    integer(kind=MPI_ADDRESS_KIND), pointer :: seen
    integer(c_int), target :: of_c
    type(c_ptr) :: place
    logical :: flag
    integer(c_int) :: found
    call MPI_Type_create_keyval(copy_attribute, delete_attribute, keyval, 5_MPI_ADDRESS_KIND)
    call MPI_Type_contiguous(3, MPI_REAL, kept)
    call MPI_Type_set_attr(kept, keyval, 10_MPI_ADDRESS_KIND)
    call MPI_Type_dup(kept, copy)
    call MPI_Type_get_attr(copy, keyval, value, flag)
    call check(flag .and. value == 15 .and. copies == 1, 'an attribute of a duplicated datatype')
    call MPI_Type_free(copy)
    call MPI_Type_delete_attr(kept, keyval)
    call MPI_Type_free(kept)
    call check(deletes == 2, 'deleted attributes')
    call MPI_Type_free_keyval(keyval)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, comm_keyval, 0_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(MPI_COMM_SELF, comm_keyval, -12345678901_MPI_ADDRESS_KIND)
    call check(c_get_attr(c_comm(MPI_COMM_SELF%MPI_VAL), comm_keyval, place, found) == 0 .and. found == 1, 'read in C')
    call c_f_pointer(place, seen)
    call check(seen == -12345678901_MPI_ADDRESS_KIND, 'C sees a pointer to what Fortran has set')
    call check(c_set_attr(c_comm(MPI_COMM_SELF%MPI_VAL), comm_keyval, c_loc(of_c)) == 0, 'set in C')
    call MPI_Comm_get_attr(MPI_COMM_SELF, comm_keyval, value, flag)
    call check(flag .and. value == transfer(c_loc(of_c), value), 'Fortran sees the pointer that C has set')
    call MPI_Comm_delete_attr(MPI_COMM_SELF, comm_keyval)
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
    call check(flag .and. value >= 32767, 'MPI_TAG_UB')
  end subroutine

  subroutine errors_and_requests
    type(MPI_Errhandler) :: errhandler
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer :: ierror, buffer, count, class
    logical :: flag
    buffer = 0
    call MPI_Comm_create_errhandler(handler, errhandler)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, errhandler)
    call MPI_Send(buffer, 1, MPI_INTEGER, 0, -5, MPI_COMM_SELF, ierror)
    call check(handled == 1, 'an error handler')
    call MPI_Errhandler_free(errhandler)
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
    call MPI_Send(buffer, 1, MPI_INTEGER, 0, -5, MPI_COMM_SELF, ierror)
    call MPI_Error_class(ierror, class)
    call check(handled == 1 .and. class == MPI_ERR_TAG, 'a returned error')
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL)
    call MPI_Grequest_start(query, release, cancelled, 9_MPI_ADDRESS_KIND, request)
    call MPI_Test(request, flag, status)
    call check(.not. flag, 'a generalized request that is not complete')
    call MPI_Cancel(request)
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Test_cancelled(status, flag)
    call MPI_Get_count(status, MPI_BYTE, count)
    call check(flag .and. count == 9 .and. status%MPI_TAG == 4 .and. frees == 9, 'a generalized request')
  end subroutine

  subroutine memory_and_windows
    type(c_ptr) :: base, buffer
    type(MPI_Win) :: win
    integer, pointer :: numbers(:)
    integer :: right, disp_unit, size
    integer(kind=MPI_ADDRESS_KIND) :: bytes
    character, target :: room(2000)
    right = mod(rank + 1, ranks)
    call MPI_Alloc_mem(40_MPI_ADDRESS_KIND, MPI_INFO_NULL, base)
    call c_f_pointer(base, numbers, [10])
    numbers = rank
    call check(sum(numbers) == 10 * rank, 'MPI_Alloc_mem')
    call MPI_Free_mem(numbers)
    call MPI_Win_allocate(8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
    call c_f_pointer(base, numbers, [2])
    numbers = -1
    call MPI_Win_fence(0, win)
    call MPI_Put(rank, 1, MPI_INTEGER, right, 1_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    call check(numbers(1) == -1 .and. numbers(2) == mod(rank + ranks - 1, ranks), 'MPI_Put')
    call MPI_Win_free(win)
    call MPI_Win_allocate_shared(4_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, base, win)
    call MPI_Win_shared_query(win, 0, bytes, disp_unit, buffer)
    call check(bytes == 4 .and. disp_unit == 4 .and. c_associated(base, buffer), 'MPI_Win_shared_query')
    call MPI_Win_free(win)
    call MPI_Buffer_attach(room, 2000)
    call MPI_Buffer_detach(buffer, size)
    call check(size == 2000, 'size from MPI_Buffer_detach')
    call check(c_associated(buffer, c_loc(room)), 'address from MPI_Buffer_detach')
  end subroutine

  subroutine files
    type(MPI_File) :: file
    type(MPI_Status) :: status
    integer :: numbers(4), count
    integer(kind=MPI_OFFSET_KIND) :: size
    character(len=MPI_MAX_DATAREP_STRING) :: datarep
    type(MPI_Datatype) :: etype, filetype
    call MPI_File_open(MPI_COMM_SELF, 'file-' // char(ichar('0') + rank), MPI_MODE_CREATE + MPI_MODE_RDWR + &
        MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
    call MPI_File_write(file, [1, 2, 3, 4], 4, MPI_INTEGER, status)
    call MPI_Get_count(status, MPI_INTEGER, count)
    call check(count == 4, 'MPI_File_write')
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native  ', MPI_INFO_NULL)
    call MPI_File_get_view(file, size, etype, filetype, datarep)
    call check(datarep == 'native' .and. etype == MPI_INTEGER, 'MPI_File_get_view')
    call MPI_File_read(file, numbers, 4, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check(all(numbers == [1, 2, 3, 4]), 'MPI_File_read')
    call MPI_File_get_size(file, size)
    call check(size == 16, 'MPI_File_get_size')
    call MPI_File_close(file)
    call check(file == MPI_FILE_NULL, 'a closed file')
  end subroutine

  subroutine strings_and_sizes
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
    character(len=MPI_MAX_PSET_NAME_LEN) :: name
    type(MPI_Session) :: session
    type(MPI_Info) :: info
    integer :: length, size, major, minor
    double precision :: x(3, 3)
    call MPI_Get_library_version(version, length)
    call check(len_trim(version) <= length .and. length > 0, 'MPI_Get_library_version')
    call MPI_Abi_get_version(major, minor)
    call check(major == MPI_ABI_VERSION, 'MPI_Abi_get_version')
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session)
    length = 0
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, name)
    call check(len_trim(name) == length .and. length > 0, 'MPI_Session_get_nth_pset')
    call MPI_Session_get_pset_info(session, trim(name) // '  ', info)
    call MPI_Info_free(info)
    call MPI_Session_finalize(session)
    call MPI_Sizeof(x, size)
    call check(size == 8, 'MPI_Sizeof of an array')
    call MPI_Sizeof('c', size)
    call check(size == 1, 'MPI_Sizeof of a character')
    call check(MPI_Wtime() > 0 .and. MPI_Aint_add(1_MPI_ADDRESS_KIND, 2_MPI_ADDRESS_KIND) == 3, 'functions')
  end subroutine
end program
