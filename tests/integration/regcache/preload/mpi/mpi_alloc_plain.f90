! MPI_Alloc_mem from Fortran: by the names of mpif.h, with Cray's pointers.
program mpi_alloc_plain
  use, intrinsic :: iso_c_binding
  implicit none
  include "mpif.h"
  interface
    function served() bind(c, name="mpi_alloc_served")
      import :: c_size_t
      integer(c_size_t) :: served
    end function
  end interface
  integer, parameter :: rounds = 1000
  integer(kind=MPI_ADDRESS_KIND) :: bytes
  integer :: error, i
  real(8) :: array(64)
  pointer (address, array)

  call MPI_Init(error)
  bytes = 64 * 8
  do i = 1, rounds
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, address, error)
    if (error /= MPI_SUCCESS) stop 1
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
