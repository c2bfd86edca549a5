package sim

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memfile makes a memory file of a fixed size: it is sealed, so that no process
// can shrink it under the others, and sparse.
func memfile(name string, bytes uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(int64(bytes)); err != nil {
		f.Close()
		return nil, fmt.Errorf("a memory file of %d bytes: %w", bytes, err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		f.Close()
		return nil, fmt.Errorf("sealing a memory file: %w", err)
	}
	return f, nil
}

// reopen makes a new open file description of the same file. Descriptors that
// travelled between processes share theirs, and with it their locks.
func reopen(f *os.File, flags int) (*os.File, error) {
	g, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flags, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a shared memory file again (needs /proc): %w", err)
	}
	return g, nil
}

// fileID identifies a file on this machine.
type fileID struct{ Dev, Ino uint64 }

func identityOf(f *os.File) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileID{}, fmt.Errorf("fstat: %w", err)
	}
	return fileID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}
