package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/plots"
)

// page is a report before it has a format.
type page struct {
	Title  string
	Labels []string // why it is no measurement
	Blocks []block
}

// block is one thing on a page; one field is set.
type block struct {
	Heading    string
	Subheading string // of one run under a heading
	Text       string
	Warning    string
	Code       string
	Table      *table
	Chart      *chart
}

// chart is drawn in both formats.
type chart struct {
	File string // of the PNG, beside the Markdown
	Alt  string
	png  []byte
	svg  []byte
}

// unknown stands for what a result does not tell.
const unknown = "–"

func newPage(runs []*result.Run, o plots.Options) (*page, error) {
	p := &page{Title: cmp.Or(o.Title, "All-reduce report")}
	b := builder{page: p, runs: runs, options: o}
	carried := make(map[string]int)
	for _, r := range runs {
		for _, l := range r.Labels() {
			if carried[l]++; carried[l] == 1 {
				p.Labels = append(p.Labels, l)
			}
		}
	}
	for i, l := range p.Labels {
		if carried[l] < len(runs) {
			p.Labels[i] = "partly " + l
		}
	}
	b.state()
	b.overview()
	if t := b.summary(); t.Rows != nil {
		b.heading("Summary")
		b.table(t)
	}
	b.notes()
	if err := b.charts(); err != nil {
		return nil, err
	}
	b.each("Modes: what ran, and why", b.decisions)
	b.verification()
	b.each("Measurements", b.measurements)
	b.text(terms)
	b.each("Predictions of NCCL's model: no measurements", b.predictions)
	b.each("Environment", b.environment)
	return p, nil
}

// builder adds blocks to a page.
type builder struct {
	*page
	runs    []*result.Run
	options plots.Options
}

func (b *builder) add(x block)      { b.Blocks = append(b.Blocks, x) }
func (b *builder) heading(s string) { b.add(block{Heading: s}) }
func (b *builder) text(s string)    { b.add(block{Text: s}) }
func (b *builder) warning(s string) { b.add(block{Warning: s}) }
func (b *builder) table(t *table) {
	t.condense()
	b.add(block{Table: t})
}
func (b *builder) several() bool { return len(b.runs) > 1 }
func (b *builder) runName(i int) string {
	r := b.runs[i]
	if i < len(b.options.Names) && b.options.Names[i] != "" {
		return b.options.Names[i]
	}
	if r.Name != "" {
		return r.Name
	}
	if i < len(b.options.Files) {
		return b.options.Files[i]
	}
	return "run " + cmp.Or(r.ID[:min(len(r.ID), 6)], fmt.Sprint(i+1))
}

// each adds a section of what of gives for each run; none where it adds nothing.
func (b *builder) each(title string, of func(*result.Run)) {
	first := true
	for i, r := range b.runs {
		before := len(b.Blocks)
		of(r)
		added := slices.Clone(b.Blocks[before:])
		b.Blocks = b.Blocks[:before]
		if len(added) == 0 {
			continue
		}
		if first {
			b.heading(title)
			first = false
		}
		if sub := b.subheading(i); sub != "" {
			b.add(block{Subheading: sub})
		}
		b.Blocks = append(b.Blocks, added...)
	}
}

// subheading names run i where there are several.
func (b *builder) subheading(i int) string {
	if !b.several() {
		return ""
	}
	return b.nameOfSeveral(i)
}

// unit is GB/s, with the word that must stand with it.
func unit(runs ...*result.Run) string {
	for _, r := range runs {
		if !r.Simulated {
			return "GB/s"
		}
	}
	return "SIMULATED GB/s"
}

// state says first of all what is wrong with the runs.
func (b *builder) state() {
	for i, r := range b.runs {
		who := ""
		if b.several() {
			who = b.runName(i) + ": "
		}
		if r.Simulated {
			b.warning(who + "SIMULATED: the device is software; no number is a measurement of hardware.")
		}
		if r.SharedGPU {
			b.warning(who + "SHARED GPU - NOT A MEASUREMENT: ranks share a GPU and run one after another.")
		}
		switch r.Status.State {
		case result.Complete:
		case result.Running:
			b.warning(who + "INCOMPLETE: the run had not ended when the results were written.")
		default:
			b.warning(fmt.Sprintf("%sINCOMPLETE: %s: %s", who, r.Status.State, r.Status.Reason))
		}
		if n := r.Totals().FailedChecks; n > 0 {
			b.warning(fmt.Sprintf("%sWRONG DATA in %d of %d rows; see Verification.", who, n, len(r.Rows)))
		}
	}
}

// overview says what the runs are.
func (b *builder) overview() {
	t := &table{Columns: slices.Concat(text("result"), constant("GPUs", "software", "started"))}
	for i, r := range b.runs {
		software := append([]string{r.Driver}, r.Libraries...)
		software = append(software, r.MPIName(), program(r))
		software = slices.DeleteFunc(software, func(s string) bool { return s == "" })
		start := unknown
		if !r.Start.IsZero() {
			start = r.Start.Format("2006-01-02 15:04 -0700")
		}
		t.Rows = append(t.Rows, []string{b.nameOfSeveral(i), plots.Machine(r), cmp.Or(strings.Join(software, " · "), unknown), start})
	}
	if b.several() {
		b.table(t)
		return
	}
	words := slices.DeleteFunc(t.Rows[0][1:], func(s string) bool { return s == unknown })
	b.text(strings.Join(words, " · "))
}

// notes gives each note of the runs once, with the runs that have it.
func (b *builder) notes() {
	var order []string
	of := make(map[string][]string)
	for i, r := range b.runs {
		for _, n := range r.Notes {
			if of[n] == nil {
				order = append(order, n)
			}
			of[n] = append(of[n], b.runName(i))
		}
	}
	if order == nil {
		return
	}
	b.heading("Notes on the numbers")
	for _, n := range order {
		if len(of[n]) < len(b.runs) {
			n = strings.Join(of[n], "; ") + ": " + n
		}
		b.text(n)
	}
}

// program names what measured r.
func program(r *result.Run) string {
	switch {
	case r.Tool != "":
		return r.Tool
	case r.Version != "":
		return "nvls-allreduce " + r.Version
	}
	return ""
}

// charts draws every kind that the results have data for.
func (b *builder) charts() error {
	kinds := plots.Available(b.runs)
	if len(kinds) == 0 {
		return nil
	}
	b.heading("Charts")
	for _, k := range kinds {
		o := b.options
		o.Kinds, o.Title = []plots.Kind{k}, ""
		c := &chart{File: string(k) + ".png", Alt: strings.Join(append([]string{"Chart of " + k.Title()}, b.Labels...), ", ")}
		for _, f := range []struct {
			format plots.Format
			to     *[]byte
		}{{plots.PNG, &c.png}, {plots.SVG, &c.svg}} {
			var w bytes.Buffer
			if err := plots.Render(&w, f.format, b.runs, o); err != nil {
				return err
			}
			*f.to = w.Bytes()
		}
		b.add(block{Chart: c})
	}
	return nil
}
