package importer

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/internal/programtest"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// job makes the log of a long job on the fly: a table of nccl-tests among lines
// of NCCL's log, of which every third is a tuning line, until it has size bytes.
type job struct {
	head, block, tail []byte
	left              int64
	buf               []byte
}

func newJob(t testing.TB, size int64) *job {
	table := text(t, "nccl-2.13.log")
	first := strings.Index(table, "   268435456")
	row := table[first : first+strings.IndexByte(table[first:], '\n')+1]
	end := strings.Index(table, "# Out of bounds")
	var block strings.Builder
	for i := range 500 {
		fmt.Fprintf(&block, "node1:4100:4321 [0] NCCL INFO AllReduce: opCount %x sendbuff 0x7f5780001ca0 recvbuff 0x7f5780001ca0 count 67108864 datatype 7 op 0 root 0 comm 0x55 [nranks=8] stream 0x56\n", i)
		fmt.Fprintf(&block, "node1:4100:4321 [0] NCCL INFO AllReduce: %d Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}\n", 1<<(i%20+10))
		fmt.Fprintf(&block, "step %d: loss 0.25, 12345 tokens/s, [2026-01-02 03:04:05] and some more text of the job\n", i)
	}
	return &job{head: []byte(table[:end]), block: []byte(block.String()), tail: []byte(row + table[end:]), left: size}
}

func (j *job) Read(p []byte) (int, error) {
	if len(j.buf) == 0 {
		switch {
		case j.head != nil:
			j.buf, j.head = j.head, nil
		case j.left > 0:
			j.buf = j.block
		case j.tail != nil:
			j.buf, j.tail = j.tail, nil
		default:
			return 0, io.EOF
		}
		j.left -= int64(len(j.buf))
	}
	n := copy(p, j.buf)
	j.buf = j.buf[n:]
	return n, nil
}

func text(t testing.TB, name string) string {
	t.Helper()
	b, err := io.ReadAll(open(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A log of 100 MB is read in a few seconds, and with no more memory than one of
// 1 MB: what grows is the number of rows and of different predictions.
func TestLongLog(t *testing.T) {
	heap := func(size int64) (bytes uint64, took time.Duration) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		run, err := Import([]Log{{"job.log", newJob(t, size)}}, Options{})
		took = time.Since(start)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if len(run.Rows) != 10 || len(run.Predictions) != 20 || run.Predictions[0].Seen < int(size/400/20*8/10) {
			t.Fatalf("%d rows, %d predictions, first seen %d times", len(run.Rows), len(run.Predictions), run.Predictions[0].Seen)
		}
		// All that was ever allocated, not what is left: the collector plays no part.
		return after.TotalAlloc - before.TotalAlloc, took
	}
	small, _ := heap(1 << 20)
	size := int64(100e6)
	if raceEnabled {
		size /= 10
	}
	large, took := heap(size)
	t.Logf("1 MiB: %d KiB allocated; %d MB: %d KiB, %v", small>>10, size/1e6, large>>10, took)
	if large > small+(256<<10) {
		t.Errorf("%d KiB allocated for 1 MiB, %d KiB for %d MB", small>>10, large>>10, size/1e6)
	}
	if limit := programtest.Within(5 * time.Second); took > limit {
		t.Errorf("%d MB took %v, more than %v", size/1e6, took, limit)
	}
}

// Lines may end as on Windows, and the last need not end at all.
func TestLineEnds(t *testing.T) {
	want, err := importFile(t, Options{}, "nccl-2.13.log")
	if err != nil {
		t.Fatal(err)
	}
	s := text(t, "nccl-2.13.log")
	for name, s := range map[string]string{
		"CRLF": strings.ReplaceAll(s, "\n", "\r\n"), "no last end": strings.TrimRight(s, "\n"), "BOM": "\ufeff" + s,
	} {
		got, err := Import([]Log{{"nccl-2.13.log", strings.NewReader(s)}}, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !equalRows(want.Rows, got.Rows) || got.Status != want.Status {
			t.Errorf("%s: other rows or state %v", name, got.Status)
		}
	}
}

func equalRows(a, b []result.Row) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Size != b[i].Size || a[i].Time != b[i].Time || a[i].BusBW != b[i].BusBW || a[i].Placement != b[i].Placement {
			return false
		}
	}
	return true
}

// However a log is cut, what is imported is a prefix of the whole, and the
// result says that it is not complete.
func TestEveryCut(t *testing.T) {
	step := 3 // lines have all lengths, so every column is cut somewhere
	if raceEnabled {
		step = 31
	}
	for _, name := range []string{"nccl-2.13.log", "nccl-2.0.log", "nccl-2.19-I-S.log", "tuning-2.20.log", "nccl-v3.json.log", "mscclpp-bench.log"} {
		whole, err := importFile(t, Options{Ranks: needRanks[name]}, name)
		if err != nil {
			t.Fatal(err)
		}
		s := text(t, name)
		// What stands after the last row does not matter.
		end := max(strings.LastIndex(s, "# Out of bounds"), strings.LastIndex(s, "\n+"), strings.LastIndex(s, ",\"out_of_bounds"))
		imported := 0
		for n := 0; n < end; n += step {
			run, err := Import([]Log{{name, strings.NewReader(s[:n])}}, Options{Ranks: needRanks[name]})
			if err != nil {
				continue
			}
			imported++
			if len(run.Rows) > 0 && run.Status.State == result.Complete {
				t.Fatalf("%s cut after %d of %d bytes is complete", name, n, len(s))
			}
			if len(run.Rows) > len(whole.Rows) {
				t.Fatalf("%s cut after %d bytes has %d rows, the whole %d", name, n, len(run.Rows), len(whole.Rows))
			}
			for i := range run.Rows {
				if run.Rows[i].Size != whole.Rows[i].Size || math.Abs(run.Rows[i].Time-whole.Rows[i].Time) > 0 {
					t.Fatalf("%s cut after %d bytes: row %d is %d bytes in %g µs", name, n, i, run.Rows[i].Size, run.Rows[i].Time)
				}
			}
		}
		if imported == 0 {
			t.Errorf("%s: no cut can be imported", name)
		}
	}
}
