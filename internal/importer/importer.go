package importer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"slices"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Log is one file to import.
type Log struct {
	Name   string // for errors, notes and sources
	Reader io.Reader
}

// Options say what logs do not.
type Options struct {
	// Ranks is the number of ranks of every log that does not tell; 0 when not
	// given. A log that tells another number is refused.
	Ranks int
	// Version of this program, for the result.
	Version string
}

// Import reads logs and makes one result of them, with all rows in memory. Its
// errors are failures with code Usage, joined: one for each line that cannot be
// read, with file and line.
func Import(logs []Log, o Options) (*result.Run, error) {
	x, err := Read(logs, o, "")
	if err != nil {
		return nil, err
	}
	defer x.Close()
	run := x.Run
	run.Rows = make([]result.Row, 0, x.NumRows)
	for row, err := range x.Rows() {
		if err != nil {
			return nil, err
		}
		run.Rows = append(run.Rows, *row)
	}
	return run, nil
}

// Imported is a result whose rows need not fit in memory.
type Imported struct {
	// Run has everything but the rows.
	Run *result.Run
	// NumRows is the number of rows.
	NumRows int

	set    *set
	tables []*table
	label  labelling
}

// Read is Import for logs of any length: rows wait in a temporary file without a
// name in the folder dir, when they are many. With dir "" they wait in memory.
// The caller closes what it gets.
func Read(logs []Log, o Options, dir string) (*Imported, error) { return read(logs, o, newSpool(dir)) }

func read(logs []Log, o Options, empty spool) (*Imported, error) {
	p := &problems{}
	sum := sha256.New()
	all := &set{spool: empty, owned: map[int]*sizeSet{}, mixed: map[string]bool{}}
	var done []*log
	for i, x := range logs {
		if slices.ContainsFunc(logs[:i], func(y Log) bool { return y.Name == x.Name }) {
			p.at(x.Name, 0, "a log is given twice", "its rows would stand twice", "")
			continue
		}
		l := &log{name: x.Name, options: o, problems: p, streams: map[string]*stream{}, set: all}
		l.read(x.Reader, sum)
		l.end()
		done = append(done, l)
	}
	x := &Imported{set: all}
	err := p.err()
	if err == nil {
		err = all.spool.fault()
	}
	if err == nil {
		err = x.merge(done, o, p)
	}
	if err != nil {
		all.spool.close()
		return nil, err
	}
	x.Run.ID = hex.EncodeToString(sum.Sum(nil))[:32]
	return x, nil
}

// Close gives the temporary file back.
func (x *Imported) Close() error { return x.set.spool.close() }

// WriteFile writes the result as JSON to path, replacing the file at once and
// whole. It gives up when ctx ends.
func (x *Imported) WriteFile(ctx context.Context, path string) error {
	rows := func(yield func(*result.Row, error) bool) {
		for row, err := range x.Rows() {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(row, err) {
				return
			}
		}
	}
	return result.Replace(path, func(w io.Writer) error { return result.EncodeRows(w, x.Run, rows) })
}

// log is one file while it is read.
type log struct {
	name     string
	options  Options
	problems *problems

	tables  []*table
	streams map[string]*stream // by the launcher's tag of their lines
	order   []*stream          // in the order of the first line that matters
	spare   *stream            // for the lines of a tag of which nothing matters yet
	tuning  tuning
	set     *set
	stop    bool       // there is too much in the log
	fields  [64][]byte // of the current line
	words   map[string]string
	// last is of the last sealed tables, for the next to share.
	last struct {
		devices                 int // number of the first table that keeps its devices
		sweep                   *result.Sweep
		libraries, modes, notes []string
	}
	// What a JSON log tells of its job.
	args []string
	env  map[string]string
}

// read reads all of a file. What is wrong goes to the problems.
func (l *log) read(r io.Reader, sum hash.Hash) {
	in := newLines(io.TeeReader(r, sum))
	c, err := in.first()
	switch {
	case errors.Is(err, io.EOF):
		l.problems.at(l.name, 0, "nothing to import", "the file is empty", "")
		return
	case err != nil:
		l.problems.at(l.name, 0, "cannot read the log", err.Error(), "")
		return
	case c == '{':
		l.readJSON(in.r)
		// All of the file counts in the id.
		if _, err := io.Copy(io.Discard, in.r); err != nil {
			l.problems.at(l.name, 0, "cannot read the log", err.Error(), "")
		}
		return
	}
	for !l.stop {
		line, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			l.problems.at(l.name, in.number, "cannot read the log", err.Error(), "")
			return
		}
		tag, rest := cutTag(line)
		s := l.stream(tag)
		s.line(bytes.TrimRight(rest, " \t"), rest, in.number)
		if s == l.spare && !s.idle() {
			l.keep(tag, in.number)
		}
	}
	for _, s := range l.order {
		s.end(in.number)
	}
}

// stream gives the stream of a tag. A tag gets one of its own when a line matters
// for a later one: what looks like a tag may be the number of a training step.
func (l *log) stream(tag []byte) *stream {
	if s := l.streams[string(tag)]; s != nil {
		return s
	}
	if l.spare == nil {
		l.spare = &stream{log: l}
	}
	return l.spare
}

// keep makes the spare stream that of tag.
func (l *log) keep(tag []byte, n int) {
	l.streams[string(tag)] = l.spare
	l.order = append(l.order, l.spare)
	l.spare = nil
	if len(l.order) > maxStreams {
		l.full(n, maxStreams, "tags of a launcher")
	}
}

// end finishes a log that was read.
func (l *log) end() {
	for _, t := range l.tables {
		if t.trial != nil && t.worldSize() > 0 {
			t.torch()
		}
		t.seal()
	}
}
