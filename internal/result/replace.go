package result

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/userfile"
)

// Replace writes a file so that a reader, or a job killed half way, finds the
// old contents or the new, never a part: into a temporary file of the same
// folder, to disk, then renamed. A symbolic link keeps pointing to its file, be it
// there or not, and a file keeps its mode; a new one is made as the umask says. What
// is no regular file (a pipe, /dev/stdout) is written to directly. An error of the
// file system is a failure with code Usage, for the path was the user's choice;
// one of write is returned with the path before it.
func Replace(path string, write func(io.Writer) error) (err error) {
	name := path
	path = userfile.Target(path)
	defer func() {
		var system syscall.Errno
		switch {
		case err == nil:
		case errors.As(err, &system):
			f := failure.Wrap(failure.Usage, err, "cannot write %s", name)
			f.Do, f.By = "check that the folder exists, is writable and has space", failure.User
			err = f
		default:
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	st, e := os.Stat(path)
	if errors.Is(e, syscall.ELOOP) {
		return e
	}
	if e == nil && !st.Mode().IsRegular() && !st.IsDir() {
		// Not blocking: a pipe that nobody reads is an error, not a wait.
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return flush(f, write)
	}
	// Not os.CreateTemp: it makes files that only the owner can read, and results
	// are for the group; the umask decides here.
	tmp := temporary(path)
	mode := fs.FileMode(0o666)
	if e == nil {
		mode = 0o600 // until it has the old one's
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(tmp)
		}
	}()
	if e == nil {
		if err := f.Chmod(st.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := flush(f, write); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// CheckWritable says whether Replace will be able to write path, by making and
// removing its temporary file. A pipe must have a reader.
func CheckWritable(path string) error {
	name := path
	path = userfile.Target(path)
	bad := func(err error) error {
		f := failure.Wrap(failure.Usage, err, "cannot write %s", name)
		f.Do, f.By = "check that the folder exists, is writable and has space", failure.User
		return f
	}
	st, e := os.Stat(path)
	if errors.Is(e, syscall.ELOOP) {
		return bad(e)
	}
	if e == nil && !st.Mode().IsRegular() && !st.IsDir() {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return bad(err)
		}
		return f.Close()
	}
	tmp := temporary(path)
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return bad(err)
	}
	f.Close()
	return os.Remove(tmp)
}

func temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8]+".tmp")
}

func flush(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}
