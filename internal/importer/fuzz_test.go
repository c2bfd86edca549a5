package importer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// FuzzImport feeds damaged logs: there is an error with code 6, or a result that
// is valid, survives JSON and is the same the second time.
func FuzzImport(f *testing.F) {
	logs, err := filepath.Glob("testdata/*.log")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint8(8))
		f.Add(b, uint8(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, ranks uint8) {
		logs := func() []Log { return []Log{{"x.log", bytes.NewReader(b)}} }
		o := Options{Ranks: int(ranks)}
		run, err := Import(logs(), o)
		if err != nil {
			if run != nil || failure.CodeOf(err) != failure.Usage {
				t.Fatalf("code %d, result %v: %v", failure.CodeOf(err), run != nil, err)
			}
			return
		}
		if len(run.Rows) == 0 && len(run.Predictions) == 0 {
			t.Fatal("an empty result without an error")
		}
		var first, second bytes.Buffer
		if err := result.Encode(&first, run); err != nil {
			t.Fatal(err)
		}
		again, err := Import(logs(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := result.Encode(&second, again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatal("two results of one log")
		}
		// Rows that waited in a file are the same, too.
		x, err := read(logs(), o, tiny(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		second.Reset()
		if err := result.EncodeRows(&second, x.Run, x.Rows()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatal("rows from disk are others")
		}
		if _, err := result.Decode(&first); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzTuning feeds lines of NCCL's log.
func FuzzTuning(f *testing.F) {
	for _, s := range []string{
		"1073741824 Bytes -> Algo 4 proto 2 time 4051.531982",
		"AllReduce: 1024 Bytes -> Algo 1 proto 0 time 5.0",
		"AllReduce:    32768 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..31}",
		"AllReduce [Symmetric]: 2097152 Bytes -> Kernel AllReduce_RSxLDMC_AGxSTMC nchannels 16 nthreads 512 nWorks 1",
		"AllGather [Copy Engine]: 1048576 Bytes -> cudaMemcpyBatchAsync",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var x tuning
		p, why := x.parse(s)
		if why == "" && (p.Algorithm == "" || p.Protocol == "" && p.Kernel == "") {
			t.Fatalf("%q gives %+v", s, p)
		}
	})
}
