package compare

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
)

// briefHeadings of the narrow table. The time of B is a part of A's, unlike B/A of
// the wide one, which is of speeds.
var briefHeadings = []string{"size", "A (us)", "A is", "B (us)", "B is", "time B/A", "B: busbw", "of stores", "verdict", "goal"}

func briefNumber(column int) bool { return column != 2 && column != 4 && column < 8 }

// WriteBrief writes a narrow table for each placement, data type, operation and
// graphs or not: times, their ratio, the
// part of the stores' measured rate that B's links carried, and the goal.
func (c *Comparison) WriteBrief(out io.Writer, names Names) error {
	w := bufio.NewWriter(out)
	mark := c.writeSides(w, names)
	for rows := c.Rows; len(rows) > 0; {
		head := rows[0].Key
		head.Size = 0
		n := slices.IndexFunc(rows, func(r Row) bool { k := r.Key; k.Size = 0; return k != head })
		if n < 0 {
			n = len(rows)
		}
		graph := "no graph"
		if head.Graph {
			graph = "graph"
		}
		mode := ""
		if head.Mode != "" {
			mode = head.Mode + ", "
		}
		fmt.Fprintf(w, "\n%s%s, %s, %s, %s%s\n", mode, head.Placement, cmp.Or(head.DataType, "unknown type"), cmp.Or(head.Op, "unknown op"), graph, mark)
		table := [][]string{briefHeadings}
		for i := range n {
			table = append(table, c.briefCells(&rows[i]))
		}
		writeAligned(w, table, briefNumber, mark)
		rows = rows[n:]
	}
	fmt.Fprintln(w)
	for _, n := range c.notes() {
		fmt.Fprintln(w, n+mark)
	}
	return w.Flush()
}

func (c *Comparison) briefCells(r *Row) []string {
	share, goal := "", ""
	if r.StoreShareB != nil {
		share = percentage(*r.StoreShareB)
	}
	if cell := goalCell(c, r); cell != nil {
		goal = cell[0]
	}
	return []string{
		collective.FormatBytes(r.Size), figure(r.A.Median, 2), cmp.Or(r.ModeA, r.Mode), figure(r.B.Median, 2), r.ranOnB(),
		figure(r.TimeRatio(), 3), figure(r.BusB, 2), share, verdictOf(r), goal,
	}
}

// ranOnB names what B ran: its mode and algorithm, for auto that of its choice. An
// algorithm that has the name of its mode says it once.
func (r *Row) ranOnB() string {
	mode := cmp.Or(r.ModeB, r.Mode)
	name, geometry, _ := strings.Cut(r.AlgorithmB, " ")
	switch {
	case r.AlgorithmB == "":
		return mode
	case mode == configs.ModeAuto:
		return r.AlgorithmB
	case name == mode, "p2p-"+name == mode, "nvls-"+name == mode:
		return strings.TrimSpace(mode + " " + geometry)
	}
	return mode + " " + r.AlgorithmB
}
