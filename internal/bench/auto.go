package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/tuning"
)

// candidates are what auto chooses from. Copy-in modes are for buffers that are
// not in symmetric memory; the run's own are.
var candidates = []string{configs.ModeZeroCopy, configs.ModeP2PPacket, configs.ModeP2POneShot, configs.ModeP2PTwoShot, configs.ModeP2PPush, configs.ModeP2PPushBulk, configs.ModeRing, configs.ModeP2PCopyEngine}

// leastBulk is the smallest message for which bulk copies are tried.
const leastBulk = 256 << 10

// leastCopyEngine is the smallest message for which copy engines are tried: each
// of their copies costs some microseconds.
const leastCopyEngine = 4 << 20

// Runs by which auto compares candidates: quick ones of every candidate, and
// when a tuning file is to be saved, longer ones of the best and their
// geometries.
const (
	quickWarmup   = 2
	quickIters    = 5
	quickRepeats  = 3
	searchIters   = 20
	searchRepeats = 3
	searchModes   = 3
)

// tunable is an all-reduce whose launch geometry can be set.
type tunable interface {
	Tuned(collective.Tuning) collective.AllReducer
}

// tuner is a tunable that knows itself what is worth trying for a size.
type tuner interface {
	Tunings(bytes uint64) []collective.Tuning
}

// attempt is a candidate with a geometry, which after it was timed is what ran, and
// how long it took.
type attempt struct {
	mode   *mode
	tuning collective.Tuning
	took   time.Duration
}

func (a attempt) String() string {
	s := a.mode.name
	if a.tuning.Blocks != 0 {
		s += fmt.Sprintf(" %dx%d", a.tuning.Blocks, a.tuning.Threads)
	}
	if a.tuning.Chunk != 0 {
		s += fmt.Sprintf(" chunk=%s slots=%d", collective.FormatBytes(a.tuning.Chunk), a.tuning.Slots)
	}
	return fmt.Sprintf("%s %.2f", s, microseconds(a.took))
}

// launch is what an attempt comes to: several tunings may come to one.
type launch struct {
	mode, algorithm string
	tuning          collective.Tuning
}

// settled is a tuning that was asked for, as it ran: of blocks and threads, and of
// chunk and slots, both or, where neither was asked for, none.
func settled(asked, ran collective.Tuning) collective.Tuning {
	if asked.Blocks == 0 && asked.Threads == 0 {
		ran.Blocks, ran.Threads = 0, 0
	}
	if asked.Chunk == 0 && asked.Slots == 0 {
		ran.Chunk, ran.Slots = 0, 0
	}
	return ran
}

// with is the mode with another geometry.
func (m *mode) with(t collective.Tuning) *mode {
	tuned, ok := m.reducer.(tunable)
	if !ok || t == (collective.Tuning{}) {
		return m
	}
	changed := *m
	changed.reducer, changed.tuning = tuned.Tuned(t), t
	return &changed
}

// choose finds the all-reduce for a size. For auto that is what the tuning file
// says; without one, every candidate is timed here, and the one whose slowest
// rank is fastest is taken.
func (t *table) choose(ctx context.Context, size uint64) (*mode, error) {
	b := t.b
	if t.mode != configs.ModeAuto {
		return b.find(t.mode), nil
	}
	if b.tuning != nil {
		return t.follow(size)
	}
	var tried []attempt
	seen := map[launch]bool{}
	for _, name := range candidates {
		m := b.find(name)
		if m == nil || m.reducer.Supports(t.dtype, t.op) != nil || !b.tries(name, size) {
			continue
		}
		a := attempt{mode: m}
		ok, err := t.try(ctx, &a, size, quickIters, quickRepeats, 0, seen)
		if err != nil {
			return nil, err
		}
		if ok {
			tried = append(tried, a)
		}
	}
	byTime := func(a, b attempt) int { return int(a.took - b.took) }
	slices.SortStableFunc(tried, byTime)
	said, iters := tried, quickIters
	if b.learned != nil {
		var err error
		if tried, err = t.search(ctx, tried[:min(searchModes, len(tried))], size); err != nil {
			return nil, err
		}
		slices.SortStableFunc(tried, byTime)
		said, iters = tried[:min(len(tried), 6)], searchIters
	}
	best := tried[0]
	if b.learned != nil {
		b.learned.Add(tuning.Choice{DataType: t.dtype.String(), Op: t.op.String(), MaxBytes: size, Mode: best.mode.name,
			Blocks: best.tuning.Blocks, Threads: best.tuning.Threads, Chunk: best.tuning.Chunk, Slots: best.tuning.Slots, TimeUS: microseconds(best.took)})
	}
	var words []string
	for _, a := range said {
		words = append(words, a.String())
	}
	b.record.decideNow(result.Decision{SizeBytes: size, Requested: configs.ModeAuto, Chosen: best.mode.name,
		Reason: fmt.Sprintf("fastest of %d iterations here%s, us: %s", iters, inGraphs(b.cfg.Timing.Graph > 0), strings.Join(words, ", "))})
	return best.mode.with(best.tuning), nil
}

// tries tells whether a candidate may gain anything at a size.
func (b *bench) tries(name string, size uint64) bool {
	switch name {
	case configs.ModeP2PPushBulk:
		return size >= leastBulk && fallback.BulkCopies(b.group) // else the same as p2p-push
	case configs.ModeP2PCopyEngine:
		return size >= leastCopyEngine
	}
	return true
}

// follow takes what the tuning file says, or where that cannot run, the next
// larger size's.
func (t *table) follow(size uint64) (*mode, error) {
	b := t.b
	c, _ := b.tuning.Lookup(t.dtype.String(), t.op.String(), size)
	m, reason := b.find(c.Mode), fmt.Sprintf("the tuning file, measured %.2f us%s for %s %s at %s", c.TimeUS, inGraphs(b.tuning.Graph), c.DataType, c.Op, collective.FormatBytes(c.MaxBytes))
	if m == nil || m.reducer.Supports(t.dtype, t.op) != nil {
		m, reason = b.find(configs.ModeP2PPush), fmt.Sprintf("the tuning file says %s, which cannot run here", c.Mode)
		c = tuning.Choice{}
	}
	b.record.decideNow(result.Decision{SizeBytes: size, Requested: configs.ModeAuto, Chosen: m.name, Reason: reason})
	return m.with(collective.Tuning{Blocks: c.Blocks, Threads: c.Threads, Chunk: c.Chunk, Slots: c.Slots}), nil
}

func inGraphs(yes bool) string {
	if yes {
		return " in graphs"
	}
	return ""
}

// search times the best candidates longer, and with other geometries or chunks.
func (t *table) search(ctx context.Context, best []attempt, size uint64) ([]attempt, error) {
	var out []attempt
	var least time.Duration
	seen := map[launch]bool{}
	for _, c := range best {
		tunings := geometries(size, t.b.group.MaxBlocks())
		if own, ok := c.mode.reducer.(tuner); ok {
			tunings = own.Tunings(size)
		}
		for _, tuning := range tunings {
			a := attempt{mode: c.mode, tuning: tuning}
			ok, err := t.try(ctx, &a, size, searchIters, searchRepeats, least, seen)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, a)
				if least == 0 || a.took < least {
					least = a.took
				}
			}
		}
	}
	return out, nil
}

// geometries are the grids and blocks worth trying for a size: the automatic one,
// and for what keeps more than one block busy, others, of as many blocks as run at
// once.
func geometries(size uint64, maxBlocks uint32) []collective.Tuning {
	out := []collective.Tuning{{}}
	for _, threads := range []uint32{256, 512} {
		most := collective.AtOnce(maxBlocks, threads)
		for _, blocks := range []uint32{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 132, 256} {
			if blocks <= most && uint64(blocks)*uint64(threads)*16 <= 4*size {
				out = append(out, collective.Tuning{Blocks: blocks, Threads: threads})
			}
		}
	}
	return out
}

// try times an attempt as the run is timed, with or without a graph: the slowest
// rank's time of one iteration, the shortest of repeats. ok is false when the mode
// cannot take the size, when it comes to a launch that was seen, and when it is
// hopeless beside what took least, 0 for nothing. Plans are the same on every rank,
// so all ranks find the same launches.
func (t *table) try(ctx context.Context, a *attempt, size uint64, iters, repeats int, least time.Duration, seen map[launch]bool) (ok bool, err error) {
	b := t.b
	m := a.mode.with(a.tuning)
	calls, err := m.prepare(size, t.dtype, t.op, result.OutOfPlace)
	if cannotRun(err) {
		return false, nil
	}
	defer func() { err = errors.Join(err, calls.close()) }()
	if err := b.node.Vote(ctx, "prepare "+a.mode.name, err); err != nil {
		return false, err
	}
	l := launch{m.name, calls[0].Algorithm(), calls[0].Tuning()}
	if seen[l] {
		return false, nil
	}
	seen[l] = true
	if a.tuning == (collective.Tuning{}) { // what the configuration asks for
		b.tellCut(m, size, calls[0])
	}
	a.tuning = settled(m.tuning, l.tuning)
	warm, err := b.loop(ctx, calls, quickWarmup)
	if err != nil {
		return false, err
	}
	if least > 0 {
		all, err := gather(ctx, b.node, "compare candidates", warm.total)
		if err != nil || hopeless(slices.Max(all)/quickWarmup, least) {
			return false, err
		}
	}
	run, free, err := b.batch(ctx, calls, iters)
	if err != nil {
		return false, err
	}
	defer free()
	for i := range repeats {
		took, err := b.section(ctx, run)
		if err != nil {
			return false, err
		}
		all, err := gather(ctx, b.node, "compare candidates", took.total)
		if err != nil {
			return false, err
		}
		if one := slices.Max(all) / time.Duration(iters); i == 0 || one < a.took {
			a.took = one
		}
	}
	return true, nil
}

// hopeless reports whether a first iteration of took says enough: a gigabyte by a
// single block takes a hundred times as long as by all, and would take minutes to
// time well. Below a millisecond first iterations say nothing and cost nothing.
func hopeless(took, least time.Duration) bool { return took > 3*least+time.Millisecond }

// readTuning gives every rank the tuning file that rank 0 reads.
func (b *bench) readTuning(ctx context.Context) error {
	path, err := gather(ctx, b.node, "ask for a tuning file", b.cfg.Run.Tuning)
	if err != nil || path[0] == "" {
		return err
	}
	text := ""
	if b.node.Rank() == 0 {
		text, err = tuning.Read(path[0])
	}
	if err := b.node.Vote(ctx, "read the tuning file", err); err != nil {
		return err
	}
	shared, err := b.node.Bcast(ctx, "share the tuning file", 0, []byte(text))
	if err != nil {
		return err
	}
	// Every rank judges the same text.
	b.tuning, err = tuning.Parse(path[0], string(shared))
	return err
}

// startTuning compares the tuning file with the group, and starts the one that is
// to be saved.
func (b *bench) startTuning() error {
	if asked := b.asked(); asked != (collective.Tuning{}) && slices.Contains(b.cfg.Modes(), configs.ModeAuto) {
		switch {
		case b.tuning != nil:
			b.record.note("Mode auto takes blocks and threads from the tuning file, where it has some, and not those asked for")
		case b.cfg.Output.Tuning != "":
			b.record.note("Mode auto tries other blocks and threads than those asked for too, to save the fastest")
		}
	}
	device := b.group.Devices()[0].Name
	if b.cfg.Output.Tuning != "" {
		host, _ := os.Hostname()
		b.learned = &tuning.File{Schema: tuning.Schema, Ranks: b.group.Size(), Device: device, Driver: b.group.Driver().Version(),
			Host: host, Time: time.Now(), Version: b.process.Version, Graph: b.cfg.Timing.Graph > 0}
	}
	if b.tuning == nil {
		return nil
	}
	return b.tuning.Check(b.group.Size(), device)
}
