//go:build linux

package mpiboot

import (
	"bytes"
	"io"
	"sync"
)

// lineWriter gives whole lines to w, so that what several processes print does
// not mix within a line. Writers that share w share mu.
type lineWriter struct {
	w    io.Writer
	mu   *sync.Mutex
	err  *writeError // shared like mu
	part []byte      // the line that has not ended yet
}

// writeError is the first error of a writer.
type writeError struct{ is error }

// longestLine is where a line without an end is passed on all the same.
const longestLine = 1 << 20

// fork makes a writer to the same place, for another process's output.
func (l *lineWriter) fork() *lineWriter { return &lineWriter{w: l.w, mu: l.mu, err: l.err} }

// Write takes any piece of output. One goroutine may call it at a time.
func (l *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	if end := bytes.LastIndexByte(b, '\n'); end >= 0 {
		l.pass(append(l.part, b[:end+1]...))
		l.part, b = l.part[:0], b[end+1:]
	}
	l.part = append(l.part, b...)
	if len(l.part) > longestLine {
		l.flush()
	}
	return n, nil
}

// flush passes on an unfinished line and ends it.
func (l *lineWriter) flush() {
	if len(l.part) > 0 {
		l.pass(append(l.part, '\n'))
		l.part = l.part[:0]
	}
}

// pass drops what can no longer be written: a rank must not end because nobody
// reads the output. The first error is kept.
func (l *lineWriter) pass(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err.is == nil {
		_, l.err.is = l.w.Write(b)
	}
}
