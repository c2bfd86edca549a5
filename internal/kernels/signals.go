package kernels

import (
	"encoding/binary"
	"fmt"
)

// Layout of a rank's signal memory: struct Signals of control.cuh.
const (
	StatusOffset = 0
	StatusBytes  = 64
	// PeersOffset is where the addresses of every rank's Signals stand, 8 bytes
	// each; the host writes them once.
	PeersOffset = 64
	// SignalBytes is the size of the whole struct.
	SignalBytes = 256 + 3*4*MaxBlocks + 4*MaxBlocks*MaxRanks + 4*MaxBlocks*8
)

// Stage is where a kernel waited.
type Stage uint32

var stages = map[Stage]string{
	1:  "for the peers' kernels to start",
	2:  "for the peers to finish",
	3:  "for the peers to have read their input (in place)",
	4:  "for the peers' chunk to be in the staging buffer, and their part of the last result",
	6:  "for the previous rank's data in the ring",
	8:  "for a peer's packet",
	9:  "for the peers' inputs to be in scratch memory",
	10: "for the peers' results",
	11: "for the peers' copies of their inputs into scratch memory",
	12: "for the peers' copies of their results",
}

func (s Stage) String() string {
	if t, ok := stages[s]; ok {
		return t
	}
	return fmt.Sprintf("at unknown stage %d", uint32(s))
}

// Status is what a kernel writes when one of its waits ran into its deadline.
type Status struct {
	Stage    Stage
	Rank     uint32
	Block    uint32
	Peer     uint32 // the rank that did not answer
	Expected uint32
	Seen     uint32
}

// DecodeStatus reads a Status; ok is false when nothing went wrong.
func DecodeStatus(b []byte) (s Status, ok bool) {
	le := binary.LittleEndian
	s = Status{Stage(le.Uint32(b)), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint32(b[20:])}
	return s, s.Stage != 0
}

func (s Status) String() string {
	return fmt.Sprintf("rank %d, block %d waited %s; rank %d did not answer (counter %d, expected %d)",
		s.Rank, s.Block, s.Stage, s.Peer, s.Seen, s.Expected)
}
