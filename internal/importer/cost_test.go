package importer

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endless are logs of any length that are nothing but rows, tables, or sizes: the
// parts of one, made on the fly.
var endless = map[string]func(t testing.TB) (head string, block func(i int) string, tail string){
	"rows": func(t testing.TB) (string, func(int) string, string) {
		head, rows, tail := parts(t)
		block := strings.Repeat(rows, 100)
		return head, func(int) string { return block }, tail
	},
	"tables": func(t testing.TB) (string, func(int) string, string) {
		head, rows, tail := parts(t)
		block := strings.Repeat(head+rows+tail, 20)
		return "", func(int) string { return block }, ""
	},
	"sizes": func(t testing.TB) (string, func(int) string, string) {
		head, _, tail := parts(t)
		return head, func(i int) string {
			var b strings.Builder
			for k := range 100 {
				elements := uint64(100*i + k + 1)
				us := 10 + float64(elements)/50e3
				alg := float64(4*elements) / 1e3 / us
				half := fmt.Sprintf("%.2f  %.4f  %.4f  0", us, alg, 1.75*alg)
				fmt.Fprintf(&b, "%12d %13d     float     sum      -1   %s   %s\n", 4*elements, elements, half, half)
			}
			return b.String()
		}, tail
	},
	"tuning lines": func(t testing.TB) (string, func(int) string, string) {
		head, rows, tail := parts(t)
		return head, func(i int) string {
			var b strings.Builder
			for k := range 100 {
				fmt.Fprintf(&b, "node1:4100:4321 [0] NCCL INFO AllReduce: %d Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}\n", 400*i+4*k+4)
			}
			return b.String()
		}, rows + tail
	},
	"numbered lines": func(t testing.TB) (string, func(int) string, string) {
		head, rows, tail := parts(t)
		return "", func(i int) string {
			var b strings.Builder
			for k := range 100 {
				fmt.Fprintf(&b, "%d: loss 0.25\n[1,%d]<stdout>:loss 0.25\n", 100*i+k, 100*i+k)
			}
			return b.String()
		}, head + rows + tail
	},
}

// parts cuts a log of nccl-tests at its rows.
func parts(t testing.TB) (head, rows, tail string) {
	s := text(t, "nccl-2.13.log")
	first, end := strings.Index(s, "   268435456"), strings.Index(s, "# Out of bounds")
	return s[:first], s[first:end], s[end:]
}

// repeat reads an endless log until it has size bytes.
type repeat struct {
	buf, tail []byte
	block     func(int) string
	i         int
	left      int
}

func newRepeat(t testing.TB, name string, size int) *repeat {
	head, block, tail := endless[name](t)
	return &repeat{buf: []byte(head), tail: []byte(tail), block: block, left: size}
}

func (r *repeat) Read(p []byte) (int, error) {
	if len(r.buf) == 0 {
		switch {
		case r.left > 0:
			r.buf = []byte(r.block(r.i))
			r.i++
		case r.tail != nil:
			r.buf, r.tail = r.tail, nil
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	r.left -= n
	return n, nil
}

// costEnv makes this binary import a log and end: "rows 1000000".
const costEnv = "IMPORTER_TEST_COST"

// TestImportOnce is the process that TestCost measures.
func TestImportOnce(t *testing.T) {
	job := os.Getenv(costEnv)
	if job == "" {
		t.Skip("for TestCost only")
	}
	i := strings.LastIndexByte(job, ' ')
	size, err := strconv.Atoi(job[i+1:])
	if err != nil {
		t.Fatal(err)
	}
	x, err := Read([]Log{{"run.log", newRepeat(t, job[:i], size)}}, Options{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	// The text of 100 MB of rows has 800 MB, which need not go to a disk.
	if err := x.WriteFile(t.Context(), os.DevNull); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%d rows\n", x.NumRows)
}

// A log of 100 MB that is nothing but rows costs less than 5 s and no more memory
// than one of 10 MB. What memory grows with stays within bounds: tables, sizes,
// tuning lines; and not with what looks like a launcher's tag. All is measured
// from outside, as the process's time of CPU and largest memory.
func TestCost(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's time and memory say nothing")
	}
	once := func(name string, size int) (cpu time.Duration, rss int64) {
		c := exec.Command(os.Args[0], "-test.run=^TestImportOnce$", "-test.v")
		// On a machine with other work the collector of a second thread comes late.
		c.Env = append(os.Environ(), "GOMAXPROCS=1", fmt.Sprintf("%s=%s %d", costEnv, name, size))
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(" rows\n")) {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		rss = c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss // KiB
		return c.ProcessState.UserTime() + c.ProcessState.SystemTime(), rss >> 10
	}
	for _, tt := range []struct {
		name  string
		mb    int
		limit int64 // MiB of memory
	}{
		{"rows", 10, 64},
		{"rows", 100, 64},
		{"tables", 20, 96}, // about 400 bytes and one mode of the result each
		{"sizes", 20, 96},  // 16 bytes each
		{"tuning lines", 20, 96},
		{"numbered lines", 20, 64},
	} {
		cpu, rss := once(tt.name, tt.mb*1e6)
		t.Logf("%s: %d MB in %.2f s of CPU, %d MiB", tt.name, tt.mb, cpu.Seconds(), rss)
		if limit := 500*time.Millisecond + 4500*time.Millisecond*time.Duration(tt.mb)/100; cpu > limit {
			t.Errorf("%s: %d MB cost %v of CPU, more than %v", tt.name, tt.mb, cpu, limit)
		}
		if rss > tt.limit {
			t.Errorf("%s: %d MB need %d MiB, more than %d", tt.name, tt.mb, rss, tt.limit)
		}
	}
}

// BenchmarkImport reads a job's log, and one of rows only.
func BenchmarkImport(b *testing.B) {
	for name, log := range map[string]func() io.Reader{
		"job":  func() io.Reader { return newJob(b, 100e6) },
		"rows": func() io.Reader { return newRepeat(b, "rows", 10e6) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x, err := Read([]Log{{"run.log", log()}}, Options{}, b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				x.Close()
			}
		})
	}
}
