package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// jsonConfig is the object "config" of nccl-tests' JSON.
type jsonConfig struct {
	Threads    int       `json:"nthreads"`
	GPUs       int       `json:"ngpus"`
	MinBytes   uint64    `json:"minimum_bytes"`
	MaxBytes   uint64    `json:"maximum_bytes"`
	StepFactor uint64    `json:"step_factor"`
	StepBytes  uint64    `json:"step_bytes"`
	Warmup     int       `json:"warmup_iters"`
	Iterations int       `json:"iterations"`
	Validation int       `json:"validation"`
	Graph      int       `json:"graph"`
	Devices    []jsonGPU `json:"devices"`
}

type jsonGPU struct {
	Rank   int    `json:"rank"`
	Group  int    `json:"group"`
	PID    int    `json:"pid"`
	Host   string `json:"hostname"`
	Device int    `json:"device"`
	PCI    string `json:"device_hex"`
	Name   string `json:"device_info"`
}

// jsonRow is one element of "results".
type jsonRow struct {
	Size    uint64       `json:"size"`
	Count   uint64       `json:"count"`
	Type    string       `json:"type"`
	Op      string       `json:"redop"`
	Root    string       `json:"root"`
	Out     *jsonHalf    `json:"out_of_place"`
	In      *jsonHalf    `json:"in_place"`
	OutIter *jsonPerIter `json:"out_of_place_per_iter"`
	InIter  *jsonPerIter `json:"in_place_per_iter"`
}

type jsonHalf struct {
	Time    *jsonNumber `json:"time"`
	CPUTime *jsonNumber `json:"cpu_time"`
	AlgBW   *jsonNumber `json:"alg_bw"`
	BusBW   *jsonNumber `json:"bus_bw"`
	Wrong   *jsonNumber `json:"nwrong"`
}

// jsonPerIter is what -I adds since version 2; version 3 added the skipped
// iterations, which stay in the list.
type jsonPerIter struct {
	Skipped int          `json:"skipped_iterations"`
	Times   []jsonNumber `json:"times_us"`
}

// jsonNumber is a number with six decimals, or the string "nan".
type jsonNumber struct{ printed }

func (n *jsonNumber) UnmarshalJSON(b []byte) error {
	if string(b) == `"nan"` {
		n.value = math.NaN()
		return nil
	}
	var ok bool
	if n.printed, ok = parse(b); !ok {
		return fmt.Errorf("%s is no number from 0 up", b)
	}
	return nil
}

// readJSON reads nccl-tests' JSON (-J), of versions 1 to 3. It streams: results
// with the times of every iteration are long.
func (l *log) readJSON(in io.Reader) {
	d := json.NewDecoder(in)
	bad := func(what string, err error) {
		l.problems.at(l.name, 0, what, err.Error(), "")
	}
	if _, err := d.Token(); err != nil {
		bad("cannot read the JSON", err)
		return
	}
	var config jsonConfig
	version, code := 0, 0
	var start string
	var tab *table
	for d.More() {
		key, err := d.Token()
		if err == nil {
			switch key {
			case "schema":
				var schema string
				if err = d.Decode(&schema); err == nil {
					l.problems.at(l.name, 0, "this is no log", fmt.Sprintf("it is a result with the schema %q", schema), "give it to plot, report or compare")
					return
				}
			case "version":
				if err = d.Decode(&version); err == nil && (version < 1 || version > 3) {
					l.problems.at(l.name, 0, "the version of nccl-tests' JSON is not known", fmt.Sprintf("it is %d; this program reads 1 to 3", version), "")
					return
				}
			case "args":
				err = d.Decode(&l.args)
			case "env":
				var all []string
				err = d.Decode(&all)
				l.env = result.Environ(all)
			case "start_time":
				err = d.Decode(&start)
			case "nccl_version":
				err = d.Decode(&code)
			case "config":
				err = d.Decode(&config)
			case "results":
				if version == 0 {
					l.problems.at(l.name, 0, "this is no JSON of nccl-tests", "it has no version before its results", "")
					return
				}
				tab = l.openJSON(config, code, start)
				var done bool
				if done, err = l.results(d, tab); !done && err == nil {
					return
				}
			default:
				var skip json.RawMessage
				err = d.Decode(&skip)
			}
		}
		if err != nil {
			l.broken(tab, err)
			return
		}
	}
	if _, err := d.Token(); err != nil {
		l.broken(tab, err)
		return
	}
	if tab == nil {
		l.problems.at(l.name, 0, "nothing to import", "the JSON has no results", "")
		return
	}
	if _, err := d.Token(); err != io.EOF {
		l.problems.at(l.name, 0, "cannot read the JSON", "there is more behind its end", "give each JSON as a file of its own")
	}
	tab.closed = true
	tab.seal()
}

// broken is JSON that ends too early, as a killed nccl-tests leaves it, or is
// none.
func (l *log) broken(tab *table, err error) {
	if tab != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		tab.cut = fmt.Sprintf("the JSON ends after %d rows", tab.rows)
		tab.seal()
		return
	}
	l.problems.at(l.name, 0, "cannot read the JSON", err.Error(), "")
}

// openJSON starts the table of "results".
func (l *log) openJSON(c jsonConfig, code int, start string) *table {
	tab := l.open(0, "nccl-tests")
	if v := ncclVersion(fmt.Sprint(code)); v != "" {
		tab.libraries = []string{"NCCL " + v}
	}
	tab.sweep = &result.Sweep{MinBytes: c.MinBytes, MaxBytes: c.MaxBytes, StepBytes: c.StepBytes, StepFactor: float64(c.StepFactor),
		Warmup: c.Warmup, Iters: c.Iterations, Check: c.Validation, Graph: c.Graph, Cycles: 1}
	tab.graph = c.Graph
	if len(l.args) > 0 && !allReduce(filepath.Base(l.args[0])) {
		tab.skip = "it is of " + l.args[0]
	}
	var h header
	for _, d := range c.Devices {
		h.devices = append(h.devices, result.Device{Rank: d.Rank, Host: d.Host, PID: d.PID, Ordinal: d.Device, PCI: d.PCI, Name: d.Name})
		h.groups = append(h.groups, d.Group)
	}
	ranks, split, err := h.ranks()
	if err != nil {
		l.problems.at(l.name, 0, "mixed numbers of ranks in a table", err.Error(), "")
	}
	// The list has one device for each process, whatever it drives.
	tab.ranks = ranks * max(1, c.Threads) * max(1, c.GPUs)
	if tab.split = split; split == "" {
		tab.devices = h.devices
	}
	if start != "" {
		tab.note("started %s, in the host's local time", start)
	}
	return tab
}

// results reads the list of rows. done is false when a row cannot be read.
func (l *log) results(d *json.Decoder, tab *table) (done bool, err error) {
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		if err == nil {
			err = errors.New("results is no list")
		}
		return false, err
	}
	for i := 0; d.More(); i++ {
		var w jsonRow
		if err := d.Decode(&w); err != nil {
			return false, err
		}
		if tab.skip != "" {
			continue
		}
		if why := l.jsonRow(tab, &w); why != "" {
			l.problems.at(l.name, 0, fmt.Sprintf("cannot read result %d", i), why, "repair or remove it")
			return false, nil
		}
	}
	_, err = d.Token()
	return err == nil, err
}

// jsonRow adds the rows of one element; why is not empty when it cannot.
func (l *log) jsonRow(tab *table, w *jsonRow) (why string) {
	if w.Op == "none" || strings.TrimSpace(w.Root) != "-1" {
		return fmt.Sprintf("operation %q and root %q are not those of an all-reduce", w.Op, w.Root)
	}
	if width := bytesOf(w.Type); width != 0 && w.Count*width != w.Size {
		return fmt.Sprintf("%d elements of %s are not %d bytes", w.Count, w.Type, w.Size)
	}
	for _, x := range []struct {
		half  *jsonHalf
		iter  *jsonPerIter
		place result.Placement
	}{{w.Out, w.OutIter, result.OutOfPlace}, {w.In, w.InIter, result.InPlace}} {
		h := x.half
		switch {
		case h == nil:
			continue
		case h.CPUTime != nil:
			return "its time is what the host takes to enqueue a call; run nccl-tests without -C"
		case h.Time == nil || h.AlgBW == nil || h.BusBW == nil:
			return "a time or bandwidth is missing"
		case math.IsNaN(h.Time.value) || math.IsNaN(h.AlgBW.value) || math.IsNaN(h.BusBW.value):
			return "a time or bandwidth is nan"
		}
		r := result.Row{Mode: "nccl", Size: w.Size, Count: w.Count, DataType: w.Type, Op: w.Op, Placement: x.place}
		if n := h.Wrong; n != nil && !math.IsNaN(n.value) {
			wrong := uint64(n.value)
			r.Wrong = &wrong
		}
		if x.iter != nil {
			if x.iter.Skipped < 0 || x.iter.Skipped > len(x.iter.Times) {
				return fmt.Sprintf("%d of %d iterations are skipped", x.iter.Skipped, len(x.iter.Times))
			}
			for _, t := range x.iter.Times[x.iter.Skipped:] {
				if math.IsNaN(t.value) {
					return "the time of an iteration is nan"
				}
				r.Times = append(r.Times, t.value)
			}
			r.Iterations = result.Summarize(r.Times)
			tab.note("iterations are CUDA event times, for each the slowest process")
			if x.iter.Skipped > 0 {
				tab.note("iterations left out at the beginning, as -K asked: %d", x.iter.Skipped)
			}
		}
		tab.add(0, r, h.Time.printed, &h.AlgBW.printed, &h.BusBW.printed)
	}
	return ""
}
