package collective

import "github.com/nvls-allreduce/nvls-allreduce/internal/kernels"

// Span is how a message divides into 16-byte packs and single elements: Head
// elements, then Packs packs, then what is left.
type Span struct {
	Head, Packs uint64
}

// NewSpan divides count elements that are read at send and written at recv.
// Packs must be aligned in both; when that cannot be, all are single elements.
func NewSpan(send, recv Ptr, count uint64, d DType) Span {
	size := uint64(d.Size())
	if (uint64(send)^uint64(recv))%kernels.PackBytes != 0 {
		return Span{}
	}
	head := (kernels.PackBytes - uint64(send)%kernels.PackBytes) % kernels.PackBytes / size
	head = min(head, count)
	return Span{Head: head, Packs: (count - head) * size / kernels.PackBytes}
}

// CeilDiv is a/b rounded up.
func CeilDiv(a, b uint64) uint64 { return (a + b - 1) / b }

// RoundUp is n rounded up to a multiple of unit.
func RoundUp(n, unit uint64) uint64 { return CeilDiv(n, unit) * unit }

// LinePacks is the packs of a 128-byte line. What ranks or blocks move apart from
// each other is whole lines where it can be: an access of a warp that lies across
// lines goes over a link as one packet more.
const LinePacks = 8

// Slice is the packs that each of so many ranks reduces.
func Slice(packs uint64, ranks int) uint64 {
	return RoundUp(CeilDiv(packs, uint64(ranks)), LinePacks)
}
