//go:build linux

// Package userfile is about the files that users name: reading one without
// trusting the name, and telling whether two names are one file. Rules:
//
//   - A name may be anything: a device without an end, a pipe that nobody writes
//     to, a checkpoint. What is no regular file is refused before a byte of it is
//     read, and no more is read than the kind of file can have.
//   - Errors are words for the end of a sentence; the caller names the file.
package userfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Open opens a regular file for reading. Of anything else it says what it is, and it
// does not wait for the writer of a pipe.
func Open(path string) (*os.File, error) {
	return open(path, "a regular file", fs.FileMode.IsRegular)
}

// OpenStream opens a regular file or a pipe, for what is read once from front to
// end. A pipe to which nobody writes is empty.
func OpenStream(path string) (*os.File, error) {
	return open(path, "a file or a pipe", func(m fs.FileMode) bool { return m.IsRegular() || m&fs.ModeNamedPipe != 0 })
}

func open(path, want string, ok func(fs.FileMode) bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, bare(err)
	}
	// Of the open file, for the name may mean another by now.
	st, err := f.Stat()
	if err == nil && !ok(st.Mode()) {
		err = fmt.Errorf("it is %s, not %s", kindOf(st.Mode()), want)
	}
	if err != nil {
		f.Close()
		return nil, bare(err)
	}
	return f, nil
}

// patience is how long a file may keep a reader waiting that is not on a disk.
const patience = 5 * time.Second

// Read gives the bytes of a regular file of at most limit bytes. Files of /proc,
// whose size is not known beforehand, are held to it while they are read.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, bare(err)
	}
	tooLong := fmt.Errorf("it has more than %d bytes, the most that is read", limit)
	if st.Size() > limit {
		return nil, tooLong
	}
	// Some files of /proc are regular and wait for news.
	f.SetReadDeadline(time.Now().Add(patience))
	var b bytes.Buffer
	b.Grow(int(st.Size()) + bytes.MinRead)
	n, err := b.ReadFrom(io.LimitReader(f, limit+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("it has no end within %v", patience)
	case err != nil:
		return nil, bare(err)
	case n > limit:
		return nil, tooLong
	}
	return b.Bytes(), nil
}

// bare drops the path, which the caller has said.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Same says whether two names are one file: a file that is there, under two
// names or behind links, or one that writing to either name would make.
func Same(a, b string) bool {
	sa, errA := os.Stat(a)
	sb, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(sa, sb)
	}
	return Target(a) == Target(b)
}

// maxLinks is how many links the kernel follows before it says ELOOP.
const maxLinks = 40

// Target is where a name leads: an absolute path without links, of a file that need
// not be there yet. Links that lead in a circle stay.
func Target(path string) string {
	for range maxLinks {
		dir := filepath.Dir(path)
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		path = filepath.Join(dir, filepath.Base(path))
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		path = to
	}
	return path
}
