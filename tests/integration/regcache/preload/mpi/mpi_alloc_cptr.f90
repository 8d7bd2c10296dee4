! MPI_Alloc_mem from Fortran: by module mpi with C's pointers, whose names end in _cptr.
program mpi_alloc_cptr
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    function served() bind(c, name="mpi_alloc_served")
      import :: c_size_t
      integer(c_size_t) :: served
    end function
  end interface
  integer, parameter :: rounds = 1000
  type(c_ptr) :: memory
  real(8), pointer :: array(:)
  integer :: error, i

  call MPI_Init(error)
  do i = 1, rounds
    call MPI_Alloc_mem(int(64 * 8, MPI_ADDRESS_KIND), MPI_INFO_NULL, memory, error)
    if (error /= MPI_SUCCESS) stop 1
    call c_f_pointer(memory, array, [64])
    array = i
    if (sum(array) /= 64 * i) stop 1
    call MPI_Free_mem(array, error)
    if (error /= MPI_SUCCESS) stop 1
  end do
  call MPI_Finalize(error)
  if (served() /= rounds) then
    print *, served(), "of", rounds, "served"
    stop 1
  end if
end program
