package mutation

import (
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

// edge is one between two branches of a graph, or all of them from one kind of work to
// another, in every call that the graph holds.
type edge struct {
	from, to string
	n        int // counted in a call; 0: all
}

// The branches of a graph of CopyEngine's calls.
const (
	scatterCopy = "copy on branch 1"
	gatherCopy  = "copy on branch 2"
	input       = "copy on branch 0" // by the workload, before each call
)

var (
	scattered = kernels.Entry(kernels.RankBarrier, kernels.Scattered)
	gathered  = kernels.Entry(kernels.RankBarrier, kernels.Gathered)
	reduced   = kernels.Entry(kernels.LocalReduce, "sum")
)

// edges lists the mutants of the graph of CopyEngine's calls: an edge left out that
// orders its three streams. Of some a call has one, of the others one for each chunk
// or nearly so.
func edges(element string) (out []*Mutant) {
	const chunks = 4
	for _, e := range []edge{
		{input, scatterCopy, 1},
		{scatterCopy, scattered, chunks},
		{scattered, scatterCopy, chunks},
		{reduced, gatherCopy, chunks},
		{gatherCopy, gathered, 1},
	} {
		all := e.n
		for e.n = range all + 1 {
			which := "all"
			if e.n > 0 {
				which = fmt.Sprintf("no. %d of a call", e.n)
			}
			out = append(out, &Mutant{Family: CopyEngine, Entry: string(CopyEngine), Element: element, Kind: "graph edge dropped",
				Old: fmt.Sprintf("%s to %s, %s", e.from, e.to, which), edge: e})
		}
	}
	return out
}

// is tells whether an edge of a graph is this one, or one of these.
func (e edge) is(o edge) bool {
	return e.from == o.from && e.to == o.to && (e.n == 0 || e.n == o.n)
}

// counter counts the edges of a rank's graphs by call.
type counter map[edge]int

// next numbers an edge. A call begins with the one from its input.
func (c counter) next(from, to string) edge {
	e := edge{from: from, to: to}
	if from == input {
		clear(c)
	}
	c[e]++
	e.n = c[e]
	return e
}
