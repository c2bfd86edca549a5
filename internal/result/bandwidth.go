package result

import "strings"

// gb is the bytes of a GB in every bandwidth: decimal, as in nccl-tests.
const gb = 1e9

// AlgBW is the algorithm bandwidth in GB/s: message size over time. Source:
// nccl-tests, doc/PERFORMANCE.md. It is 0 when there is no time.
func AlgBW(bytes uint64, timeUS float64) float64 {
	if timeUS <= 0 {
		return 0
	}
	return float64(bytes) / (timeUS * 1e-6) / gb
}

// BusBW is the bus bandwidth in GB/s of an all-reduce over n ranks:
// algbw · 2(n−1)/n, for every algorithm. Source: nccl-tests,
// doc/PERFORMANCE.md. It is the link rate that a ring would need for the same
// time, so NVLS may exceed the rate of the links; LinkFactor has the truth.
func BusBW(algBW float64, n int) float64 { return algBW * BusFactor(n) }

// BusFactor is busbw over algbw for n ranks: 2(n−1)/n.
func BusFactor(n int) float64 {
	if n < 1 {
		return 0
	}
	return 2 * float64(n-1) / float64(n)
}

// LinkFactor tells how many times the message one GPU's links carry in their
// busier direction, by mode and algorithm on n ranks; false when the algorithm
// is not known. The link rate is algbw times this.
//
//   - ring, and two-shot, push or copy engines over peers: 2(n−1)/n, reduce-scatter
//     and all-gather; copy-in over peers is two-shot in a staging buffer.
//   - one-shot over peers: n−1, the whole input goes to or comes from every peer.
//   - packets over peers: 2(n−1), one-shot with a flag beside every word of data.
//   - NVLS: (n+1)/n. The switch delivers the reduced slice and the whole result;
//     a GPU sends its whole input and the reduced slice. Copy-in stages inside
//     the GPU and adds nothing. NCCL's cost model counts the same, and the
//     discussion of nccl-tests#239 names the formula.
//   - NVLS one-shot: n. Every rank has the switch reduce the whole message, and
//     each such reduction reads all of a GPU's input.
//
// Mode auto counts as what it chose, and NCCL's modes as what NCCL says it chose,
// with the flags of its protocols. A single rank uses no link.
func LinkFactor(mode, algorithm string, n int) (factor float64, known bool) {
	words := strings.Fields(strings.ToLower(algorithm))
	mode = strings.ToLower(mode)
	if mode == "auto" && len(words) > 0 {
		mode, words = words[0], words[1:]
	}
	shape := ""
	if len(words) > 0 {
		shape = words[0]
	}
	overhead := 1.0 // of NCCL's protocols, which carry flags
	if strings.HasPrefix(mode, "nccl") {
		var ok bool
		if mode, shape, overhead, ok = ncclShape(words); !ok {
			return 0, false
		}
	}
	f := func(x float64) (float64, bool) {
		if n <= 1 {
			return 0, true
		}
		return x * overhead, true
	}
	ranks := float64(n)
	switch {
	case strings.HasPrefix(mode, "nvls"):
		switch shape {
		case "one-shot":
			return f(ranks)
		case "packet", "packets":
			// A multicast store goes to every member, the sender included.
			return f(2 * ranks)
		}
		return f((ranks + 1) / ranks)
	case mode == "ring" || shape == "ring":
		return f(2 * (ranks - 1) / ranks)
	}
	// mode is p2p or one of its algorithms, or auto's algorithm named the shape
	// first.
	if !strings.HasPrefix(mode, "p2p") {
		shape = mode
	}
	switch shape {
	case "two-shot", "push", "plain-push", "push-bulk", "copy-in", "copy-engine":
		return f(2 * (ranks - 1) / ranks)
	case "one-shot":
		return f(ranks - 1)
	case "packet", "packets":
		return f(2 * (ranks - 1))
	}
	return 0, false
}

// ncclShape says which mode and shape of this program move the data of what NCCL
// chose, and how much more its protocol moves. It is known only where NCCL's log
// was read; trees and others are not counted. Names of kernels tell how they
// gather (AG), reduce-scatter (RS) and whether by multicast (MC); LL is packets.
func ncclShape(words []string) (mode, shape string, overhead float64, known bool) {
	if len(words) < 2 {
		words = append(words, "", "")
	}
	overhead = 1
	switch words[1] {
	case "ll":
		overhead = 2 // 4 bytes of flag for 4 of data
	case "ll128":
		overhead = 128.0 / 120 // 8 bytes of flag for 120 of data
	}
	switch words[0] {
	case "ring", "nvls":
		return words[0], "", overhead, true
	case "symmetric":
		_, kernel, _ := strings.Cut(words[1], "_")
		switch kernel {
		case "agxll_r":
			return "p2p", "packets", 1, true
		case "agxllmc_r":
			return "nvls", "packets", 1, true
		case "rsxld_agxst", "rsxtmald_agxtmast":
			return "p2p", "two-shot", 1, true
		case "rsxldmc_agxstmc":
			return "nvls", "", 1, true
		}
	}
	return "", "", 0, false
}
