package importer

import (
	"bytes"
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

// Import reads logs and makes one result of them. Its errors are failures with
// code Usage, joined: one for each line that cannot be read, with file and line.
func Import(logs []Log, o Options) (*result.Run, error) {
	p := &problems{}
	sum := sha256.New()
	var read []*log
	for i, x := range logs {
		if slices.ContainsFunc(logs[:i], func(y Log) bool { return y.Name == x.Name }) {
			p.at(x.Name, 0, "a log is given twice", "its rows would stand twice", "")
			continue
		}
		l := &log{name: x.Name, options: o, problems: p, streams: map[string]*stream{}}
		l.read(x.Reader, sum)
		read = append(read, l)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	run := merge(read, o, p)
	if err := p.err(); err != nil {
		return nil, err
	}
	run.ID = hex.EncodeToString(sum.Sum(nil))[:32]
	return run, nil
}

// log is one file while it is read.
type log struct {
	name     string
	options  Options
	problems *problems

	tables  []*table
	streams map[string]*stream // by the launcher's tag of their lines
	order   []*stream          // in the order of their first line
	tuning  tuning
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
	for {
		line, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			l.problems.at(l.name, in.number, "cannot read the log", err.Error(), "")
			return
		}
		tag, rest := cutTag(line)
		s := l.streams[string(tag)]
		if s == nil {
			s = &stream{log: l}
			l.streams[string(tag)] = s
			l.order = append(l.order, s)
		}
		s.line(bytes.TrimRight(rest, " \t"), rest, in.number)
	}
	for _, s := range l.order {
		s.end(in.number)
	}
}
