package fallback

import (
	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/internal/kernels"
)

const bulkSlots = kernels.BulkSlots

// BulkCopies reports whether every rank's GPU has bulk copies. All ranks run the
// same kernel, so one that has none decides for all.
func BulkCopies(g *collective.Group) bool {
	for _, i := range g.Devices() {
		if !i.AtLeast(kernels.PushBulk.Capability()) {
			return false
		}
	}
	return true
}

func (p *P2P) pushBulk(c collective.Call) (collective.Prepared, error) {
	g := p.group
	if !BulkCopies(g) {
		plain, err := p.push(c)
		if err != nil {
			return nil, err
		}
		return withoutBulk{plain}, nil
	}
	span := collective.NewSpan(c.Send.Local(), c.Recv.Local(), c.Count, c.DType)
	plan := planBulk(c, span, g.Size(), g.MaxBlocks(), g.Workspace().ScratchBytes(), p.tuning)
	return p.launchPush(kernels.PushBulk, bulkSlots, c, span, plan)
}

// withoutBulk is a push that was to be one by bulk copies.
type withoutBulk struct{ collective.Prepared }

// Algorithm implements collective.Prepared.
func (w withoutBulk) Algorithm() string { return "plain-" + w.Prepared.Algorithm() }

// planBulk is planPush for bulk copies: no multiprocessor has shared memory for a
// second block, however small, and every slot holds a line at least.
func planBulk(c collective.Call, span collective.Span, ranks int, maxBlocks uint32, scratch uint64, t collective.Tuning) slotPlan {
	t.Blocks = min(t.Blocks, maxBlocks)
	geo := t.Geometry(collective.CeilDiv(c.Bytes(), uint64(ranks)*kernels.PackBytes), maxBlocks, maxBlocks)
	slots := uint64(bulkSlots * (ranks - 1) * kernels.PackBytes)
	geo.Blocks = uint32(max(min(uint64(geo.Blocks), scratch/(slots*collective.LinePacks)), 1))
	p := planSlots(c, span, ranks, geo, min(scratch/(uint64(geo.Blocks)*slots), pushRound/uint64(ranks-1)))
	p.split(ranks, span.Packs)
	return p
}
