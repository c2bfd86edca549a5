package exec

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// PageSize is the granularity of a Space in bytes: every mapping starts at and
// spans a multiple of it. It is the granularity that CUDA drivers report.
const (
	PageShift = 21
	PageSize  = 1 << PageShift
	pageMask  = PageSize - 1
)

// Resolve gives, for the page at offset of a multicast object, one view of
// PageSize bytes for every device of the team, in team order. It fails while
// the memory of some device is not bound there.
type Resolve func(offset uint64) (views [][]byte, err error)

// page is what one entry of the page table points to. It is immutable but for
// views.
type page struct {
	host  []byte // unicast: PageSize bytes
	whole []byte // of this mapping, from this page on

	// multicast
	resolve Resolve
	offset  uint64                           // of this page in the object
	views   atomic.Pointer[[]unsafe.Pointer] // what resolve said, until Invalidate
}

// Space is the device address space of one process: a flat page table over a
// fixed range. Kernels look addresses up while the driver maps and unmaps:
// entries are replaced atomically. The caller must not unmap host memory that
// a running kernel can reach.
type Space struct {
	base  uint64
	bytes uint64
	mu    sync.Mutex // writers
	pages []atomic.Pointer[page]
}

// NewSpace makes an empty address space of the addresses base to base+bytes.
// base must be at least WindowEnd, below which the shared, local and parameter
// windows of generic addresses lie. It panics if base or bytes is no multiple of PageSize.
func NewSpace(base, bytes uint64) *Space {
	if base%PageSize != 0 || bytes%PageSize != 0 || base < WindowEnd {
		panic(fmt.Sprintf("exec: address space %#x+%#x is not page-aligned, or below %#x", base, bytes, uint64(WindowEnd)))
	}
	return &Space{base: base, bytes: bytes, pages: make([]atomic.Pointer[page], bytes>>PageShift)}
}

// Base and Bytes tell the range of the space.
func (s *Space) Base() uint64  { return s.base }
func (s *Space) Bytes() uint64 { return s.bytes }

// span checks a range and gives its first page and its number of pages.
func (s *Space) span(addr, bytes uint64) (first, n int, err error) {
	if addr%PageSize != 0 || bytes%PageSize != 0 || bytes == 0 {
		return 0, 0, fmt.Errorf("device range %#x+%#x is no multiple of the page size %d", addr, bytes, PageSize)
	}
	if addr < s.base || bytes > s.bytes || addr-s.base > s.bytes-bytes {
		return 0, 0, fmt.Errorf("device range %#x+%#x lies outside the address space %#x+%#x", addr, bytes, s.base, s.bytes)
	}
	return int((addr - s.base) >> PageShift), int(bytes >> PageShift), nil
}

// Map puts host memory at addr. len(host) is a multiple of PageSize; the host
// memory itself must be aligned to 16 bytes, and stay mapped until Unmap. It
// fails if something is mapped in the range.
func (s *Space) Map(addr uint64, host []byte) error {
	if uintptr(unsafe.Pointer(unsafe.SliceData(host)))%16 != 0 {
		return fmt.Errorf("host memory at %p is not aligned to 16 bytes", unsafe.SliceData(host))
	}
	return s.mapPages(addr, uint64(len(host)), func(i int) *page {
		return &page{host: host[i<<PageShift : (i+1)<<PageShift : (i+1)<<PageShift], whole: host[i<<PageShift:]}
	})
}

// MapMulticast puts a multicast object at addr. resolve is called when a kernel
// first touches a page, and its answer is kept until Invalidate; an answer that
// is an error is not kept.
func (s *Space) MapMulticast(addr, bytes uint64, resolve func(offset uint64) (views [][]byte, err error)) error {
	return s.mapPages(addr, bytes, func(i int) *page {
		return &page{resolve: resolve, offset: uint64(i) << PageShift}
	})
}

func (s *Space) mapPages(addr, bytes uint64, make func(i int) *page) error {
	first, n, err := s.span(addr, bytes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		if s.pages[first+i].Load() != nil {
			return fmt.Errorf("device address %#x is mapped already", addr+uint64(i)<<PageShift)
		}
	}
	for i := range n {
		s.pages[first+i].Store(make(i))
	}
	return nil
}

// Invalidate forgets what resolve said about the multicast pages in the range.
// The driver calls it after Bind and Unbind. Other pages are not touched.
func (s *Space) Invalidate(addr, bytes uint64) {
	first, n, err := s.span(addr, bytes)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		if p := s.pages[first+i].Load(); p != nil && p.resolve != nil {
			// A new page, not a cleared one: a kernel that resolves the old page
			// just now cannot put an old answer into the new one.
			s.pages[first+i].Store(&page{resolve: p.resolve, offset: p.offset})
		}
	}
}

// Unmap removes the mappings of the range. It fails, and removes nothing, if a
// page of it is not mapped.
func (s *Space) Unmap(addr, bytes uint64) error {
	first, n, err := s.span(addr, bytes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n {
		if s.pages[first+i].Load() == nil {
			return fmt.Errorf("device address %#x is not mapped", addr+uint64(i)<<PageShift)
		}
	}
	for i := range n {
		s.pages[first+i].Store(nil)
	}
	return nil
}

// Host gives the host memory behind a range of unicast memory, for copies: one
// slice for each mapping that the range touches, in order. It fails with a
// *Fault of kind IllegalAddress where nothing is mapped, and PlainOnMulticast on
// a multicast address.
func (s *Space) Host(addr, bytes uint64) ([][]byte, error) {
	var out [][]byte
	for bytes > 0 {
		p := s.page(addr)
		if p == nil {
			return nil, &Fault{Kind: IllegalAddress, Addr: addr}
		}
		if p.host == nil {
			return nil, &Fault{Kind: PlainOnMulticast, Addr: addr}
		}
		off := addr & pageMask
		part := p.whole[off : off+min(bytes, uint64(len(p.whole))-off)]
		// Parts of the mapping may have been unmapped, or mapped anew.
		for at := PageSize - off; at < uint64(len(part)); at += PageSize {
			q := s.page(addr + at)
			if q == nil || q.host == nil || &q.host[0] != &part[at] {
				part = part[:at]
				break
			}
		}
		out = append(out, part)
		addr += uint64(len(part))
		bytes -= uint64(len(part))
	}
	return out, nil
}

// page finds the entry for an address, nil if nothing is mapped.
func (s *Space) page(addr uint64) *page {
	i := (addr - s.base) >> PageShift
	if i >= uint64(len(s.pages)) {
		return nil
	}
	return s.pages[i].Load()
}

// resolved gives one pointer a device for a multicast page.
func (p *page) resolved() ([]unsafe.Pointer, error) {
	if v := p.views.Load(); v != nil {
		return *v, nil
	}
	views, err := p.resolve(p.offset)
	if err != nil {
		return nil, err
	}
	if len(views) == 0 {
		return nil, fmt.Errorf("multicast page at offset %#x has no device", p.offset)
	}
	ptrs := make([]unsafe.Pointer, len(views))
	for i, v := range views {
		if len(v) != PageSize {
			return nil, fmt.Errorf("multicast page at offset %#x: the view of device %d has %d bytes instead of %d", p.offset, i, len(v), PageSize)
		}
		ptrs[i] = unsafe.Pointer(unsafe.SliceData(v))
	}
	p.views.Store(&ptrs)
	return ptrs, nil
}
