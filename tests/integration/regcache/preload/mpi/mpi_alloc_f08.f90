! MPI_Alloc_mem from Fortran: by module mpi_f08, with C's pointers and an info object.
program mpi_alloc_f08
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  interface
    function served() bind(c, name="mpi_alloc_served")
      import :: c_size_t
      integer(c_size_t) :: served
    end function
  end interface
  integer, parameter :: rounds = 1000
  type(c_ptr) :: memory
  type(MPI_Info) :: info
  real(8), pointer :: array(:)
  integer :: i

  call MPI_Init()
  call MPI_Info_create(info)
  call MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096")
  do i = 1, rounds
    if (mod(i, 2) == 0) then
      call MPI_Alloc_mem(int(64 * 8, MPI_ADDRESS_KIND), info, memory)
    else
      call MPI_Alloc_mem(int(64 * 8, MPI_ADDRESS_KIND), MPI_INFO_NULL, memory)
    end if
    call c_f_pointer(memory, array, [64])
    array = i
    if (sum(array) /= 64 * i) stop 1
    call MPI_Free_mem(array)
  end do
  call MPI_Info_free(info)
  call MPI_Finalize()
  if (served() /= rounds) then
    print *, served(), "of", rounds, "served"
    stop 1
  end if
end program
