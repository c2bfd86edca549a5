//go:build linux

package doctor

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// Layout of the pattern test in shared memory of each rank.
const (
	patternWords = 1024
	patternBytes = 4 * patternWords
	// ownAt is what peers read, landAt where this rank puts what it read, and
	// inboxAt where peers write, one slot each.
	ownAt   = 0
	landAt  = patternBytes
	inboxAt = 2 * patternBytes
)

// word i of what rank from holds for rank to.
func patternOf(from, to int) []byte {
	var out []byte
	for i := range patternWords {
		out = append(out, words(uint32(i)*2654435761+uint32(from)<<24+uint32(to)<<16+1)...)
	}
	return out
}

func words(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// pattern reads every peer's memory and writes into it, and names the pairs
// between which a pattern did not arrive.
func (p *prober) pattern(ctx context.Context, m *collective.Memory) (broken []string, err error) {
	g := p.group
	dev := g.Device()
	vote := func(stage string, err error) error { return g.Node().Vote(ctx, stage, err) }
	if err := vote("write the own pattern", dev.CopyToDevice(m.Local()+ownAt, patternOf(g.Rank(), g.Rank()))); err != nil {
		return nil, err
	}
	infos := g.Devices()
	name := func(r int) string { return fmt.Sprintf("rank %d (%s)", r, infos[r].UUID) }
	compare := func(at device.Ptr, want []byte, pair string) error {
		got := make([]byte, len(want))
		if err := dev.CopyToHost(got, at); err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			broken = append(broken, pair)
		}
		return nil
	}
	copied := func(dst, src device.Ptr) error {
		if err := g.Stream().Copy(dst, src, patternBytes); err != nil {
			return err
		}
		return p.wait(ctx)
	}
	for r := range g.Size() {
		if r == g.Rank() {
			continue
		}
		p.stage("read the memory of %s", name(r))
		err := dev.CopyToDevice(m.Local()+landAt, make([]byte, patternBytes))
		if err == nil {
			err = copied(m.Local()+landAt, m.Peer(r)+ownAt)
		}
		if err == nil {
			err = compare(m.Local()+landAt, patternOf(r, r), fmt.Sprintf("%s does not read what %s wrote", name(g.Rank()), name(r)))
		}
		if err != nil {
			return nil, g.Node().Vote(ctx, "read the peers' memory", fmt.Errorf("%s reading from %s: %w", name(g.Rank()), name(r), err))
		}
	}
	if err := vote("read the peers' memory", nil); err != nil {
		return nil, err
	}
	for r := range g.Size() {
		if r == g.Rank() {
			continue
		}
		p.stage("write into the memory of %s", name(r))
		err := dev.CopyToDevice(m.Local()+landAt, patternOf(g.Rank(), r))
		if err == nil {
			err = copied(m.Peer(r)+inboxAt+device.Ptr(patternBytes*g.Rank()), m.Local()+landAt)
		}
		if err != nil {
			return nil, vote("write into the peers' memory", fmt.Errorf("%s writing to %s: %w", name(g.Rank()), name(r), err))
		}
	}
	if err := vote("write into the peers' memory", nil); err != nil {
		return nil, err
	}
	for r := range g.Size() {
		if r == g.Rank() {
			continue
		}
		if err := compare(m.Local()+inboxAt+device.Ptr(patternBytes*r), patternOf(r, g.Rank()), fmt.Sprintf("%s does not see what %s wrote", name(g.Rank()), name(r))); err != nil {
			return nil, vote("read what the peers wrote", err)
		}
	}
	if err := vote("read what the peers wrote", nil); err != nil {
		return nil, err
	}
	// Which pairs are broken is known to one end only; all have to go on alike.
	texts, err := g.Node().Allgather(ctx, "compare patterns", fmt.Append(nil, len(broken)))
	if err != nil {
		return nil, err
	}
	for r, t := range texts {
		if string(t) != "0" && r != g.Rank() && len(broken) == 0 {
			broken = append(broken, "another pair, named by "+name(r))
		}
	}
	return broken, nil
}

// roundTrip passes a memory file to every other rank of the host and reads what
// is in the files that came: what sharing GPU memory needs of the host.
func roundTrip(ctx context.Context, node *mpiboot.Node) error {
	const stage = "pass descriptors between all ranks"
	f, err := memoryFile(fmt.Sprint(node.Rank()))
	if err := node.Vote(ctx, "make a memory file", err); err != nil {
		return err
	}
	defer f.Close()
	files, err := node.ExchangeFiles(ctx, stage, f)
	if err != nil {
		return err
	}
	for r, got := range files {
		if got == nil {
			continue
		}
		b := make([]byte, 16)
		n, _ := got.ReadAt(b, 0) // io.EOF after the text
		got.Close()
		if string(b[:n]) != fmt.Sprint(r) && err == nil {
			err = failure.New(failure.Internal, "the file of local rank %d holds %q at local rank %d", r, b[:n], node.Rank())
		}
	}
	return node.Vote(ctx, stage, err)
}

func memoryFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("nvls-allreduce-doctor", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memory file")
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
