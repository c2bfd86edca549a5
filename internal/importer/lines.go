package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one line, and with it the memory for reading. The longest line
// of the logs read here is a device list of some KiB.
const maxLine = 64 << 10

// lines reads a text log line by line.
type lines struct {
	r      *bufio.Reader
	number int // of the last line, from 1
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, maxLine)} }

// first gives the first byte that is no white space without consuming it, and
// the bytes before it; io.EOF when there is none within a line's length.
func (l *lines) first() (byte, error) {
	for n := 512; ; n *= 2 {
		b, err := l.r.Peek(min(n, maxLine))
		if t := bytes.TrimLeft(b, " \t\r\n\ufeff"); len(t) > 0 {
			return t[0], nil
		}
		if err != nil {
			return 0, err
		}
		if n >= maxLine {
			return 0, nil
		}
	}
}

// next gives the next line without its end. The slice is valid until the next
// call. io.EOF follows the last line.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if len(line) > 0 {
		l.number++
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("a line is longer than %d KiB: no text log", maxLine>>10)
	case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
		return nil, err
	}
	if bytes.IndexByte(line, 0) >= 0 {
		return nil, errors.New("it holds a zero byte: a binary file, or text in UTF-16")
	}
	if l.number == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
		if bytes.HasPrefix(line, []byte{0x1f, 0x8b}) {
			return nil, errors.New("it is compressed: unpack it with gunzip first")
		}
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), nil
}
