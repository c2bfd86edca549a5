//go:build linux

package mpiboot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// A message between two ranks of a host is cut into frames, one packet each:
// the kernel limits a packet to the socket's send buffer, and the descriptors
// on it to 253. A frame is a header, the stage's name, and a piece of the body;
// all numbers little-endian.
const (
	frameMagic   = 0x534c564e // "NVLS"
	frameVersion = 1
	headerBytes  = 4 + 1 + 1 + 4 + 4 + 4 + 2 + 2 + 1

	maxStage      = 255
	maxChunk      = 32 << 10 // bytes of body in a frame
	maxFiles      = 64       // descriptors on a frame
	maxFilesTotal = 1 << 12
	maxMessage    = 64 << 20
	maxHello      = 4 << 10 // what one may send before this rank knows who it is
)

// kind says to which operation a message belongs.
type kind uint8

const (
	kindHello   kind = iota + 1 // first on a connection: who is there
	kindBye                     // last: the exit code with which the rank leaves
	kindBarrier                 //
	kindGather
	kindBcast
	kindVote
	kindFiles
	kindBcastFiles
	kindReduce
	kindStart
	lastKind = kindStart
)

func (k kind) String() string {
	return [...]string{"?", "hello", "bye", "barrier", "all-gather", "broadcast", "vote", "file exchange", "file broadcast", "all-reduce", "start"}[min(k, lastKind)]
}

// message is what one rank sends to another in one operation.
type message struct {
	kind  kind
	seq   uint32 // number of the operation since the mesh was connected
	stage string
	body  []byte
	files []*os.File

	objects bool // received: a vote with an error
}

// frame is one packet of a message.
type frame struct {
	kind       kind
	seq        uint32
	stage      string
	total      uint32 // bytes in the whole body
	offset     uint32 // where chunk lies in it
	chunk      []byte
	files      uint16 // descriptors on this packet
	filesTotal uint16 // and on the whole message
}

// split cuts a message into frames. The files of frame i follow those of frame
// i-1 in m.files.
func (m *message) split() ([]frame, error) {
	switch {
	case len(m.stage) > maxStage:
		return nil, fmt.Errorf("stage name of %d bytes: the limit is %d", len(m.stage), maxStage)
	case len(m.body) > maxMessage:
		return nil, fmt.Errorf("message of %d bytes at stage %q: the limit is %d", len(m.body), m.stage, maxMessage)
	case len(m.files) > maxFilesTotal:
		return nil, fmt.Errorf("message of %d files at stage %q: the limit is %d", len(m.files), m.stage, maxFilesTotal)
	}
	var frames []frame
	body, files := m.body, len(m.files)
	for {
		f := frame{kind: m.kind, seq: m.seq, stage: m.stage, total: uint32(len(m.body)), offset: uint32(len(m.body) - len(body)), filesTotal: uint16(len(m.files))}
		f.chunk, body = body[:min(maxChunk, len(body))], body[min(maxChunk, len(body)):]
		f.files = uint16(min(maxFiles, files))
		files -= int(f.files)
		frames = append(frames, f)
		if len(body) == 0 && files == 0 {
			return frames, nil
		}
	}
}

func (f *frame) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, frameMagic)
	b = append(b, frameVersion, byte(f.kind))
	b = binary.LittleEndian.AppendUint32(b, f.seq)
	b = binary.LittleEndian.AppendUint32(b, f.total)
	b = binary.LittleEndian.AppendUint32(b, f.offset)
	b = binary.LittleEndian.AppendUint16(b, f.files)
	b = binary.LittleEndian.AppendUint16(b, f.filesTotal)
	b = append(b, byte(len(f.stage)))
	b = append(b, f.stage...)
	return append(b, f.chunk...)
}

var errNotOurs = errors.New("not a packet of this program")

// parseFrame reads what append wrote. The chunk is a part of b.
func parseFrame(b []byte) (frame, error) {
	if len(b) < headerBytes || binary.LittleEndian.Uint32(b) != frameMagic {
		return frame{}, errNotOurs
	}
	if b[4] != frameVersion {
		return frame{}, fmt.Errorf("packet of protocol version %d, this is version %d: the ranks run different builds", b[4], frameVersion)
	}
	f := frame{
		kind:       kind(b[5]),
		seq:        binary.LittleEndian.Uint32(b[6:]),
		total:      binary.LittleEndian.Uint32(b[10:]),
		offset:     binary.LittleEndian.Uint32(b[14:]),
		files:      binary.LittleEndian.Uint16(b[18:]),
		filesTotal: binary.LittleEndian.Uint16(b[20:]),
	}
	stage, rest := int(b[22]), b[headerBytes:]
	if len(rest) < stage {
		return frame{}, fmt.Errorf("packet of %d bytes ends inside its stage name", len(b))
	}
	f.stage, f.chunk = string(rest[:stage]), rest[stage:]
	switch {
	case f.kind == 0 || f.kind > lastKind:
		return frame{}, fmt.Errorf("packet of unknown kind %d", f.kind)
	case f.total > maxMessage || f.files > maxFiles || f.filesTotal > maxFilesTotal || f.files > f.filesTotal:
		return frame{}, fmt.Errorf("packet of a message of %d bytes and %d files is above the limits", f.total, f.filesTotal)
	case uint64(f.offset)+uint64(len(f.chunk)) > uint64(f.total):
		return frame{}, fmt.Errorf("packet reaches beyond its message: %d+%d of %d bytes", f.offset, len(f.chunk), f.total)
	}
	return f, nil
}

// assembler puts the frames of one connection together. The zero value is
// ready.
type assembler struct {
	stranger bool // the other end may be anyone: short messages, no descriptors
	part     *message
	want     frame // the first frame of part
}

// add takes the next frame and the files that came with it, and gives the
// message that it completed, or nil. On an error the files are still the
// caller's to close.
func (a *assembler) add(f frame, files []*os.File) (*message, error) {
	if len(files) != int(f.files) {
		return nil, fmt.Errorf("packet at stage %q came with %d of %d descriptors: this process may have too many open files (ulimit -n)", f.stage, len(files), f.files)
	}
	if a.stranger && (f.total > maxHello || f.filesTotal > 0) {
		return nil, fmt.Errorf("a first message of %d bytes and %d descriptors is not a hello", f.total, f.filesTotal)
	}
	if a.part == nil {
		a.part = &message{kind: f.kind, seq: f.seq, stage: f.stage, body: make([]byte, 0, min(f.total, maxChunk))}
		a.want = f
	}
	w := a.want
	if f.kind != w.kind || f.seq != w.seq || f.stage != w.stage || f.total != w.total || f.filesTotal != w.filesTotal ||
		int(f.offset) != len(a.part.body) || len(a.part.files)+len(files) > int(w.filesTotal) {
		return nil, fmt.Errorf("packet of %v %d at stage %q inside %v %d at stage %q", f.kind, f.seq, f.stage, w.kind, w.seq, w.stage)
	}
	a.part.body = append(a.part.body, f.chunk...)
	a.part.files = append(a.part.files, files...)
	if len(a.part.body) < int(w.total) || len(a.part.files) < int(w.filesTotal) {
		return nil, nil
	}
	m := a.part
	a.part = nil
	return m, nil
}

// close closes the files of an unfinished message.
func (a *assembler) close() {
	if a.part != nil {
		closeFiles(a.part.files)
		a.part = nil
	}
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
