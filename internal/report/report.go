package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// Files of a report. A chart is named by its kind: busbw.png.
const (
	Markdown = "report.md"
	HTML     = "report.html"
)

// Write writes the report of runs into a folder, which it makes if only the last
// part is missing. Everything is made before the first file is written, and each
// file is replaced whole. Of o it takes title, names, files and baseline. An
// error is a failure with code Usage if it is the user's to mend.
func Write(dir string, runs []*result.Run, o plots.Options) error {
	p, err := newPage(runs, o)
	if err != nil {
		return err
	}
	type file struct {
		name  string
		bytes []byte
	}
	var files []file
	for _, b := range p.Blocks {
		if b.Chart != nil {
			files = append(files, file{b.Chart.File, b.Chart.png})
		}
	}
	for _, f := range []struct {
		name  string
		write func(io.Writer, *page) error
	}{{Markdown, writeMarkdown}, {HTML, writeHTML}} {
		var b bytes.Buffer
		if err := f.write(&b, p); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		files = append(files, file{f.name, b.Bytes()})
	}

	if err := CheckDir(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return cannot(dir, err)
	}
	for _, f := range files {
		err := result.Replace(filepath.Join(dir, f.name), func(w io.Writer) error {
			_, err := w.Write(f.bytes)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckDir says whether a report can be written to dir: it is a folder, or its
// parent is one. The error is a failure with code Usage.
func CheckDir(dir string) error {
	st, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		dir = filepath.Dir(filepath.Clean(dir))
		st, err = os.Stat(dir)
	}
	switch {
	case err != nil:
		return cannot(dir, err)
	case !st.IsDir():
		return cannot(dir, errors.New("it is no folder"))
	}
	return nil
}

func cannot(dir string, err error) error {
	e := failure.Wrap(failure.Usage, err, "cannot write a report to %s", dir)
	e.Do, e.By = "name a folder that is there, or a new one in one that is", failure.User
	return e
}
