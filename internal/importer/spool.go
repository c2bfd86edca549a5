package importer

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// spool keeps encoded rows until all logs are read: in memory, and when they are
// many in a file.
type spool struct {
	dir    string // for the file; "" is never one
	memory int    // bytes that stay in memory
	// chunk is how many bytes of one table are put together. Tables of several
	// ranks may stand between each other's lines.
	chunk int
	buf   []byte // what is not in the file yet
	size  int64  // of all
	file  *os.File
	err   error // the first of the file
}

// newSpool has room for about 80 000 rows in memory.
func newSpool(dir string) spool { return spool{dir: dir, memory: 4 << 20, chunk: 64 << 10} }

// extent is a part of a spool.
type extent struct {
	at int64
	n  int
}

// add appends a chunk of a table to its parts.
func (s *spool) add(parts []extent, b []byte) []extent {
	if len(b) == 0 {
		return parts
	}
	if last := len(parts) - 1; last >= 0 && parts[last].at+int64(parts[last].n) == s.size {
		parts[last].n += len(b)
	} else {
		parts = append(parts, extent{s.size, len(b)})
	}
	s.buf = append(s.buf, b...)
	s.size += int64(len(b))
	if s.dir != "" && len(s.buf) >= s.memory {
		s.flush()
	}
	return parts
}

// flush moves what is in memory to the file, which has no name: nothing is left
// however the program ends.
func (s *spool) flush() {
	if s.err == nil && s.file == nil {
		if s.file, s.err = os.CreateTemp(s.dir, ".import.*.tmp"); s.err == nil {
			s.err = os.Remove(s.file.Name())
		}
	}
	if s.err == nil {
		_, s.err = s.file.Write(s.buf)
	}
	s.buf = s.buf[:0]
}

// fault is why rows were lost; nil when none was.
func (s *spool) fault() error {
	if s.err == nil {
		return nil
	}
	f := failure.Wrap(failure.Usage, s.err, "cannot keep rows in a temporary file in %s", s.dir)
	f.Do, f.By = "check that the folder exists, is writable and has space", failure.User
	return f
}

// ReadAt reads from memory or the file. It is io.ReaderAt.
func (s *spool) ReadAt(b []byte, at int64) (int, error) {
	memory := s.size - int64(len(s.buf)) // where it begins
	switch {
	case at < 0 || at >= s.size:
		return 0, io.EOF
	case at >= memory:
		n := copy(b, s.buf[at-memory:])
		if n < len(b) {
			return n, io.EOF
		}
		return n, nil
	case at+int64(len(b)) <= memory:
		return s.file.ReadAt(b, at)
	}
	n, err := s.file.ReadAt(b[:memory-at], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("temporary file: %w", err)
	}
	m, err := s.ReadAt(b[n:], at+int64(n))
	return n + m, err
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
