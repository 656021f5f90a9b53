! A data representation whose conversion is Fortran's, with default and with large counts (MPI-5.0, 14.5.3).
module conversions
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: failed = 0, converted = 0
contains
  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (good) return
    failed = failed + 1
    print *, 'failed: ', what
  end subroutine

  subroutine extent_of(datatype, extent, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(kind=MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror
    call check(datatype == MPI_INTEGER .and. extra_state == 11, 'extent in a data representation')
    extent = 4
    ierror = MPI_SUCCESS
  end subroutine

  subroutine negate(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: user(:), file(:)
    call check(datatype == MPI_INTEGER .and. extra_state == 11 .and. position >= 0, 'converting a data representation')
    call c_f_pointer(userbuf, user, [int(position) + count])
    call c_f_pointer(filebuf, file, [count])
    user(int(position) + 1:) = -file
    converted = converted + count
    ierror = MPI_SUCCESS
  end subroutine

  subroutine negate_large(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer(kind=MPI_COUNT_KIND) :: count
    integer :: ierror
    integer(kind=MPI_OFFSET_KIND) :: position
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    call negate(userbuf, datatype, int(count), filebuf, position, extra_state, ierror)
  end subroutine
end module

program datarep
  use conversions
  implicit none
  integer :: rank
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Register_datarep('negative ', negate, MPI_CONVERSION_FN_NULL, extent_of, 11_MPI_ADDRESS_KIND)
  call MPI_Register_datarep_c('large', negate_large, MPI_CONVERSION_FN_NULL_C, extent_of, 11_MPI_ADDRESS_KIND)
  call read_with('negative')
  call read_with('large')
  call MPI_Finalize()
  if (failed /= 0) stop 1
contains
  subroutine read_with(name)
    character(len=*), intent(in) :: name
    type(MPI_File) :: file
    type(MPI_Datatype) :: etype, filetype
    character(len=MPI_MAX_DATAREP_STRING) :: found
    integer :: numbers(4)
    integer(kind=MPI_OFFSET_KIND) :: disp
    converted = 0
    call MPI_File_open(MPI_COMM_SELF, 'file-' // char(ichar('0') + rank), MPI_MODE_CREATE + MPI_MODE_RDWR + &
        MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
    call MPI_File_write(file, [1, 2, 3, 4], 4, MPI_INTEGER, MPI_STATUS_IGNORE)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, name // '  ', MPI_INFO_NULL)
    call MPI_File_get_view(file, disp, etype, filetype, found)
    call check(found == name .and. etype == MPI_INTEGER .and. disp == 0, 'MPI_File_get_view')
    call MPI_File_read(file, numbers, 4, MPI_INTEGER, MPI_STATUS_IGNORE)
    call check(all(numbers == [-1, -2, -3, -4]) .and. converted == 4, 'conversion ' // name)
    call MPI_File_close(file)
  end subroutine
end program
