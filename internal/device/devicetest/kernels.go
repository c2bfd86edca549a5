package devicetest

import (
	_ "embed"
	"unsafe"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

// The kernels; testdata/build.sh makes them from the sources beside them.
var (
	//go:embed testdata/portable.ptx
	portablePTX string
	//go:embed testdata/multicast.ptx
	multicastPTX string
)

// The parameter structs, as in the sources.
type (
	affineArgs struct {
		Out, In         device.Ptr
		N, Factor, Term uint32
		_               uint32
	}
	sumArgs struct {
		Out      device.Ptr
		In       [8]device.Ptr
		Ranks, N uint32
	}
	foldArgs   struct{ Out, In device.Ptr }
	signalArgs struct {
		Data, Flag device.Ptr
		N, Value   uint32
	}
	awaitArgs struct {
		Data, Flag, Out, Outcome device.Ptr
		Nanoseconds              uint64
		N, Value                 uint32
	}
	pokeArgs   struct{ Address device.Ptr }
	stopArgs   struct{ Thread uint32 }
	reduceArgs struct {
		In, Out      device.Ptr
		First, Quads uint32
	}
)

// bytesOf gives the bytes of a parameter struct.
func bytesOf[T any](args *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(args)), unsafe.Sizeof(*args))
}
