//go:build linux

package mpi

import "fmt"

// ABI is one of the three families of binary interfaces under which an MPI
// library can have been built. They differ in what a handle is.
type ABI int

const (
	// OpenMPI handles are addresses of data in the library.
	OpenMPI ABI = iota + 1
	// MPICH handles are 4-byte integers; Intel MPI, MVAPICH and Cray MPICH
	// follow this ABI too.
	MPICH
	// Standard is the ABI of the MPI 5.0 standard: small integers in pointers.
	Standard
)

func (a ABI) String() string {
	switch a {
	case OpenMPI:
		return "Open MPI"
	case MPICH:
		return "MPICH"
	case Standard:
		return "MPI-5 standard ABI"
	}
	return fmt.Sprintf("ABI(%d)", int(a))
}

// handle is a predefined MPI object: the address of a symbol where symbol is
// set, else a number.
type handle struct {
	symbol string
	value  uintptr
}

// constants are what mpi.h would have defined.
type constants struct {
	pointerHandles           bool
	commWorld                handle
	byteType, int64, float64 handle
	max, min, sum            handle
	errorsReturn             handle
	threadFunneled           int
}

// constantsOf gives the values of each family. They are the ones printed by
// programs compiled against the headers of Open MPI 4.1, of MPICH 3.4, 4.0 and
// 5.0, and against the MPI 5.0 standard's table; each is part of its family's
// promise of binary compatibility.
func constantsOf(a ABI) constants {
	switch a {
	case OpenMPI:
		return constants{
			pointerHandles: true,
			commWorld:      handle{symbol: "ompi_mpi_comm_world"},
			byteType:       handle{symbol: "ompi_mpi_byte"},
			int64:          handle{symbol: "ompi_mpi_int64_t"},
			float64:        handle{symbol: "ompi_mpi_double"},
			max:            handle{symbol: "ompi_mpi_op_max"},
			min:            handle{symbol: "ompi_mpi_op_min"},
			sum:            handle{symbol: "ompi_mpi_op_sum"},
			errorsReturn:   handle{symbol: "ompi_mpi_errors_return"},
			threadFunneled: 1,
		}
	case MPICH:
		return constants{
			commWorld:      handle{value: 0x44000000},
			byteType:       handle{value: 0x4c00010d},
			int64:          handle{value: 0x4c00083a},
			float64:        handle{value: 0x4c00080b},
			max:            handle{value: 0x58000001},
			min:            handle{value: 0x58000002},
			sum:            handle{value: 0x58000003},
			errorsReturn:   handle{value: 0x54000001},
			threadFunneled: 1,
		}
	case Standard:
		return constants{
			pointerHandles: true,
			commWorld:      handle{value: 0x101},
			byteType:       handle{value: 0x247},
			int64:          handle{value: 0x258},
			float64:        handle{value: 0x214},
			max:            handle{value: 0x23},
			min:            handle{value: 0x22},
			sum:            handle{value: 0x21},
			errorsReturn:   handle{value: 0x143},
			threadFunneled: 1024,
		}
	}
	panic(fmt.Sprintf("mpi: constants of unknown %v", a))
}

// symbols is what identify asks of a loaded library.
type symbols interface {
	has(symbol string) bool
	// abiMajor calls MPI_Abi_get_version, which has to be there.
	abiMajor() int
}

// identify tells the family by what a library exports, never by its file name:
// libmpi.so.12 has been Open MPI 1.10, Intel MPI and MPICH. The legacy libmpi of
// Open MPI 6 exports MPI_Abi_get_version too, and answers −1. ok is false
// where this is no MPI library.
func identify(s symbols) (abi ABI, ok bool) {
	switch {
	case !s.has("MPI_Init_thread"):
		return 0, false
	case s.has("MPI_Abi_get_version") && s.abiMajor() > 0:
		return Standard, true
	case s.has("ompi_mpi_comm_world"):
		return OpenMPI, true
	}
	return MPICH, true
}
