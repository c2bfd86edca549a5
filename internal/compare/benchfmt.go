package compare

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Named is a result with what it is called.
type Named struct {
	Name string
	Run  *result.Run
}

// WriteBenchfmt writes results in Go's benchmark format, which benchstat reads:
// one line for each iteration where iterations were kept, else one for each row.
// The key "result" tells several results apart: benchstat -col result. Names
// and a key carry the label of what is no measurement.
func WriteBenchfmt(out io.Writer, results ...Named) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "Unit busB/s better=higher")
	for _, n := range results {
		r := n.Run
		fmt.Fprintf(w, "result: %s\n", oneLine(n.Name))
		fmt.Fprintf(w, "ranks: %d\n", r.WorldSize)
		fmt.Fprintf(w, "device: %s\n", cmp.Or(oneLine(r.DeviceName()), "unknown"))
		fmt.Fprintf(w, "tool: %s\n", oneLine(cmp.Or(r.Tool, "nvls-allreduce "+r.Version)))
		fmt.Fprintf(w, "label: %s\n", cmp.Or(r.Label(), "measured"))
		fmt.Fprintf(w, "state: %s\n", r.Status.State)
		name := "AllReduce"
		if r.SharedGPU {
			name = "SharedGPU" + name
		}
		if r.Simulated {
			name = "SIMULATED" + name
		}
		for i := range r.Rows {
			x := &r.Rows[i]
			more := ""
			if x.Graph > 0 {
				more = "/graph=yes"
			}
			// Speed of wrong data must not stand beside that of right data.
			if wrong([]*result.Row{x}) {
				more += "/data=wrong"
			}
			line := fmt.Sprintf("Benchmark%s/mode=%s/place=%s/type=%s/op=%s%s/size=%d", name, word(x.Mode), word(string(x.Placement)),
				word(cmp.Or(x.DataType, "unknown")), word(cmp.Or(x.Op, "unknown")), more, x.Size)
			times, each := x.Times, 1
			if len(times) == 0 {
				times, each = []float64{x.Time}, max(1, r.Sweep.Iters)
			}
			for _, us := range times {
				if us <= 0 {
					continue
				}
				fmt.Fprintf(w, "%s %d %.6g ns/op %.6g busB/s\n", line, each, us*1e3, result.BusBW(result.AlgBW(x.Size, us), r.WorldSize)*1e9)
			}
		}
	}
	return w.Flush()
}

// word makes one word of a name: the format splits at spaces and slashes.
func word(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || c == '/' || !unicode.IsPrint(c) {
			return '_'
		}
		return c
	}, s)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
