//go:build linux

package mpiboot

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Any message comes out as it went in, through any number of frames.
func TestFramesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &message{
			kind:  kind(rapid.IntRange(1, int(lastKind)).Draw(t, "kind")),
			seq:   rapid.Uint32().Draw(t, "seq"),
			stage: rapid.StringN(0, -1, maxStage).Draw(t, "stage"),
			body:  bytes.Repeat([]byte{1, 2, 3, 5, 7}, rapid.IntRange(0, 3*maxChunk/5).Draw(t, "fives")),
			files: make([]*os.File, rapid.IntRange(0, 3*maxFiles).Draw(t, "files")),
		}
		for i := range m.files {
			m.files[i] = os.NewFile(^uintptr(0)>>1, "") // nil, or told apart by address
		}
		frames, err := m.split()
		if err != nil {
			t.Fatal(err)
		}
		var a assembler
		rest := m.files
		for i, f := range frames {
			if f.files > maxFiles || len(f.chunk) > maxChunk {
				t.Fatalf("frame %d is above the limits", i)
			}
			got, err := parseFrame(f.append(nil))
			if err != nil {
				t.Fatal(err)
			}
			out, err := a.add(got, rest[:f.files])
			rest = rest[f.files:]
			if err != nil {
				t.Fatal(err)
			}
			if (out != nil) != (i == len(frames)-1) {
				t.Fatalf("frame %d of %d: message %v", i, len(frames), out)
			}
			if out != nil && (out.kind != m.kind || out.seq != m.seq || out.stage != m.stage || !bytes.Equal(out.body, m.body) || len(out.files) != len(m.files)) {
				t.Fatalf("got %v %d %q, %d bytes, %d files", out.kind, out.seq, out.stage, len(out.body), len(out.files))
			}
		}
	})
}

func TestSplitLimits(t *testing.T) {
	for _, m := range []*message{
		{kind: kindVote, stage: strings.Repeat("s", maxStage+1)},
		{kind: kindVote, body: make([]byte, maxMessage+1)},
		{kind: kindFiles, files: make([]*os.File, maxFilesTotal+1)},
	} {
		if _, err := m.split(); err == nil {
			t.Errorf("stage of %d, body of %d, %d files: no error", len(m.stage), len(m.body), len(m.files))
		}
	}
}

func TestParseFrameRefuses(t *testing.T) {
	good := (&frame{kind: kindVote, stage: "s", total: 3, chunk: []byte("abc")}).append(nil)
	if _, err := parseFrame(good); err != nil {
		t.Fatal(err)
	}
	change := func(at int, to byte) []byte { b := bytes.Clone(good); b[at] = to; return b }
	for name, b := range map[string][]byte{
		"empty": nil, "short": good[:headerBytes-1], "magic": change(0, 'X'), "version": change(4, 9), "kind 0": change(5, 0), "kind": change(5, 99),
		"longer than its message": change(10, 2), "too long": change(13, 0xff), "files": change(18, 5), "stage": change(22, 200),
	} {
		if f, err := parseFrame(b); err == nil {
			t.Errorf("%s: taken as %+v", name, f)
		}
	}
	if _, err := parseFrame([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n")); !errors.Is(err, errNotOurs) {
		t.Errorf("got %v", err)
	}
}

func TestAssemblerRefuses(t *testing.T) {
	first := frame{kind: kindGather, seq: 4, stage: "a", total: 6, chunk: []byte("abc")}
	for name, second := range map[string]frame{
		"another message": {kind: kindGather, seq: 5, stage: "a", total: 6, offset: 3, chunk: []byte("def")},
		"another stage":   {kind: kindGather, seq: 4, stage: "b", total: 6, offset: 3, chunk: []byte("def")},
		"a gap":           {kind: kindGather, seq: 4, stage: "a", total: 6, offset: 4, chunk: []byte("de")},
		"lost files":      {kind: kindGather, seq: 4, stage: "a", total: 6, offset: 3, chunk: []byte("def"), files: 1, filesTotal: 1},
	} {
		var a assembler
		if m, err := a.add(first, nil); m != nil || err != nil {
			t.Fatal(m, err)
		}
		if m, err := a.add(second, nil); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// No packet makes the parser or the assembler panic, and what it takes is
// within the limits.
func FuzzFrame(f *testing.F) {
	f.Add((&frame{kind: kindVote, stage: "s", total: 3, chunk: []byte("abc")}).append(nil), (&frame{kind: kindBye, total: 9, offset: 3, chunk: []byte("d")}).append(nil))
	f.Add([]byte{}, []byte("NVLS"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var asm assembler
		for _, packet := range [][]byte{a, b} {
			fr, err := parseFrame(packet)
			if err != nil {
				continue
			}
			if len(fr.stage) > maxStage || fr.total > maxMessage || int(fr.offset)+len(fr.chunk) > int(fr.total) {
				t.Fatalf("taken: %+v", fr)
			}
			if !bytes.Equal(fr.append(nil), packet) {
				t.Fatalf("%x written again is %x", packet, fr.append(nil))
			}
			if m, err := asm.add(fr, nil); err == nil && m != nil && len(m.body) != int(fr.total) {
				t.Fatalf("message of %d bytes instead of %d", len(m.body), fr.total)
			}
		}
	})
}
