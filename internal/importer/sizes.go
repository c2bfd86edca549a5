package importer

import (
	"cmp"
	"slices"
)

// sizeSet counts how often each size was seen. A sweep comes in ascending order
// and costs 16 bytes a size; only sizes out of order need a map.
type sizeSet struct {
	sorted []sized
	rest   map[uint64]sized
}

// sized is one size: how often it was seen, and its first line.
type sized struct {
	size    uint64
	n, line uint32
}

func (s *sizeSet) find(size uint64) (at int, ok bool) {
	if n := len(s.sorted); n == 0 || s.sorted[n-1].size < size {
		return n, false
	}
	return slices.BinarySearchFunc(s.sorted, size, func(x sized, size uint64) int { return cmp.Compare(x.size, size) })
}

// get gives what is known of size.
func (s *sizeSet) get(size uint64) (x sized, ok bool) {
	if at, ok := s.find(size); ok {
		return s.sorted[at], true
	}
	x, ok = s.rest[size]
	return x, ok
}

// count adds one to size and gives how often it was there before.
func (s *sizeSet) count(size uint64, line int) (before int) {
	at, ok := s.find(size)
	switch {
	case ok:
		s.sorted[at].n++
		return int(s.sorted[at].n) - 1
	case at == len(s.sorted): // the largest so far, so it is not in rest
		s.sorted = append(s.sorted, sized{size, 1, uint32(line)})
		return 0
	}
	if s.rest == nil {
		s.rest = map[uint64]sized{}
	}
	x, ok := s.rest[size]
	if !ok {
		x = sized{size, 0, uint32(line)}
	}
	x.n++
	s.rest[size] = x
	return int(x.n) - 1
}

func (s *sizeSet) len() int { return len(s.sorted) + len(s.rest) }

// all calls f with every size.
func (s *sizeSet) all(f func(uint64)) {
	for _, x := range s.sorted {
		f(x.size)
	}
	for size := range s.rest {
		f(size)
	}
}
