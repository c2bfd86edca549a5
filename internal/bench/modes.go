package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/fallback"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

// mode is an all-reduce that was set up.
type mode struct {
	name    string
	reducer collective.AllReducer
	asked   bool // named in the configuration, not only a candidate of auto
	buffers *buffers
	tuning  collective.Tuning // asked for, by the configuration or a tuning file
	nccl    *ncclPart         // nil but for modes of NCCL
}

// substitute is what replaces a mode that cannot run, with fallback = "allow".
const substitute = configs.ModeRing

// setUpModes makes every mode that the run needs, each once. Modes that cannot
// run are refused or replaced.
func (b *bench) setUpModes(ctx context.Context) error {
	for _, name := range b.cfg.Modes() {
		if name == configs.ModeAuto {
			if err := b.setUpCandidates(ctx); err != nil {
				return err
			}
			continue
		}
		err := b.add(ctx, name, true)
		switch {
		case err == nil:
		case !cannotRun(err):
			return err
		case b.cfg.Run.Fallback == configs.FallbackAllow:
			b.record.decide(result.Decision{Requested: name, Chosen: substitute, Reason: err.Error()})
			if err := b.add(ctx, substitute, true); err != nil {
				return err
			}
		default:
			b.refuse(name, err)
		}
	}
	if !slices.Contains(b.cfg.Modes(), configs.ModeAuto) && !slices.ContainsFunc(b.modes, func(m *mode) bool { return m.asked }) {
		return b.refused[0]
	}
	return nil
}

// setUpCandidates makes what auto can choose from; what cannot run is named.
func (b *bench) setUpCandidates(ctx context.Context) error {
	for _, name := range candidates {
		err := b.add(ctx, name, false)
		if err != nil && !cannotRun(err) {
			return err
		}
		if err != nil {
			b.record.decide(result.Decision{Requested: configs.ModeAuto, Chosen: "without " + name, Reason: err.Error()})
		}
	}
	return nil
}

// cannotRun tells a mode that is not available here from a fault.
func cannotRun(err error) bool { return failure.CodeOf(err) == failure.Unavailable }

func (b *bench) refuse(name string, err error) {
	b.record.decide(result.Decision{Requested: name, Reason: err.Error()})
	b.fail(err)
}

// fail adds err to what the run ends with, once: modes often have one reason.
func (b *bench) fail(err error) {
	if !slices.ContainsFunc(b.refused, func(e error) bool { return e.Error() == err.Error() }) {
		b.refused = append(b.refused, err)
	}
}

// find returns the mode of a name that was set up, nil if it was not.
func (b *bench) find(name string) *mode {
	for _, m := range b.modes {
		if m.name == name {
			return m
		}
	}
	return nil
}

// add sets up a mode unless it is there.
func (b *bench) add(ctx context.Context, name string, asked bool) error {
	if m := b.find(name); m != nil {
		m.asked = m.asked || asked
		return nil
	}
	if name == configs.ModeNCCL || name == configs.ModeNCCLSymmetric {
		m, err := b.openNCCL(ctx, name)
		if err == nil {
			b.modes = append(b.modes, m)
		}
		return err
	}
	r, err := b.reducer(ctx, name)
	if err != nil {
		return err
	}
	b.modes = append(b.modes, &mode{name: name, reducer: r, asked: asked, buffers: b.buffers, tuning: b.asked()})
	return nil
}

// asked is the tuning that the configuration asks for.
func (b *bench) asked() collective.Tuning {
	return collective.Tuning{Blocks: uint32(b.cfg.NVLS.Blocks), Threads: uint32(b.cfg.NVLS.Threads)}
}

// tellCut says of a mode's algorithm, once, that it runs with another geometry than
// was asked for, and why: a --blocks that one mode can have may be too many for
// another of the same run, which is no reason to refuse either.
func (b *bench) tellCut(m *mode, size uint64, p collective.Prepared) {
	words := cut(m.tuning, p.Tuning(), b.group.MaxBlocks())
	shape, _, _ := strings.Cut(p.Algorithm(), " ")
	if key := m.name + " " + shape; words != "" && !slices.Contains(b.told, key) {
		b.told = append(b.told, key)
		b.record.note("Mode %s, %d bytes: runs as %s, %s", m.name, size, p.Algorithm(), words)
	}
}

// cut says what of the blocks and threads asked for does not run, "" where all
// does. maxBlocks is Group.MaxBlocks.
func cut(asked, ran collective.Tuning, maxBlocks uint32) string {
	if ran.Blocks == 0 || cmp.Or(asked.Blocks, ran.Blocks) == ran.Blocks && cmp.Or(asked.Threads, ran.Threads) == ran.Threads {
		return ""
	}
	var not []string
	if asked.Blocks != 0 {
		not = append(not, fmt.Sprintf("%d blocks", asked.Blocks))
	}
	if asked.Threads != 0 {
		not = append(not, fmt.Sprintf("%d threads a block", asked.Threads))
	}
	threads := cmp.Or(asked.Threads, ran.Threads)
	why := "the mode has room for no other grid at this size"
	if n := collective.AtOnce(maxBlocks, threads); asked.Blocks > n {
		why = fmt.Sprintf("a GPU here runs at most %d blocks of %d threads at once, and blocks wait for those of the other ranks", n, threads)
	}
	return fmt.Sprintf("not as the %s asked for: %s", strings.Join(not, " and "), why)
}

// reducer makes the all-reduce of a mode. It is collective.
func (b *bench) reducer(ctx context.Context, name string) (collective.AllReducer, error) {
	g := b.group
	t := b.asked()
	staging := uint64(b.cfg.NVLS.Staging)
	switch name {
	case configs.ModeZeroCopy:
		z := nvls.NewZeroCopy(g, t)
		return z, z.Register(ctx, b.buffers.memory)
	case configs.ModeCopyIn:
		return nvls.NewCopyIn(ctx, g, staging, t)
	case configs.ModeRing:
		return fallback.NewRing(g, t), nil
	case configs.ModeP2P:
		return fallback.NewP2P(g, fallback.Auto, t), nil
	case configs.ModeP2POneShot:
		return fallback.NewP2P(g, fallback.OneShot, t), nil
	case configs.ModeP2PTwoShot:
		return fallback.NewP2P(g, fallback.TwoShot, t), nil
	case configs.ModeP2PPush:
		return fallback.NewP2P(g, fallback.Push, t), nil
	case configs.ModeP2PPushBulk:
		return fallback.NewP2P(g, fallback.PushBulk, t), nil
	case configs.ModeP2PPacket:
		return fallback.NewP2P(g, fallback.Packet, t), nil
	case configs.ModeP2PCopyEngine:
		return fallback.NewCopyEngine(ctx, g, t)
	case configs.ModeP2PCopyIn:
		return fallback.NewCopyIn(ctx, g, staging, t)
	}
	return nil, failure.New(failure.Internal, "mode %q has no implementation", name)
}

// tables measures the tables of one data type and operation.
func (b *bench) tables(ctx context.Context, cycle int, d collective.DType, op collective.Op) error {
	var run []*table
	for _, name := range b.cfg.Modes() {
		chosen, err := b.resolve(name, d, op, cycle == 0)
		if err != nil {
			return err
		}
		if chosen == "" {
			continue
		}
		at := slices.IndexFunc(run, func(t *table) bool { return t.mode == chosen })
		if at < 0 {
			at = len(run)
			run = append(run, &table{b: b, mode: chosen, cycle: cycle, dtype: d, op: op})
		}
		run[at].requested = append(run[at].requested, name)
	}
	for _, t := range run {
		if err := t.measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// resolve finds the mode that runs for a mode that was asked for, "" when none
// does. report is false when it was all said before.
func (b *bench) resolve(name string, d collective.DType, op collective.Op, report bool) (string, error) {
	if name == configs.ModeAuto {
		return name, nil
	}
	m := b.find(name)
	if m == nil {
		if b.cfg.Run.Fallback == configs.FallbackAllow {
			return substitute, nil
		}
		return "", nil
	}
	err := m.reducer.Supports(d, op)
	if err == nil {
		return name, nil
	}
	if b.cfg.Run.Fallback != configs.FallbackAllow {
		if report {
			b.refuse(name, err)
		}
		return "", nil
	}
	if b.find(substitute) == nil {
		ring := fallback.NewRing(b.group, b.asked())
		b.modes = append(b.modes, &mode{name: substitute, reducer: ring, asked: true, buffers: b.buffers, tuning: b.asked()})
	}
	if report {
		b.record.decide(result.Decision{Requested: fmt.Sprintf("%s (%s of %s)", name, op, d), Chosen: substitute, Reason: err.Error()})
	}
	return substitute, nil
}
