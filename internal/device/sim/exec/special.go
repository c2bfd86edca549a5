package exec

import "fmt"

// specialBits gives the width of a special register that is constant during the
// life of a block.
func specialBits(name string) (int, bool) {
	switch name {
	case "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z",
		"%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z",
		"%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid",
		"%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge",
		"%dynamic_smem_size", "%total_smem_size":
		return 32, true
	case "WARP_SZ":
		return 32, true
	}
	return 0, false
}

// fill sets a special register of a warp.
func (w *warp) fill(s special) {
	d := &w.r[s.slot]
	first := w.first
	for l := range d {
		var v uint64
		switch s.name {
		case "%tid.x":
			v = uint64(first) + uint64(l)
		case "%ntid.x":
			v = uint64(w.run.l.Block)
		case "%ctaid.x":
			v = uint64(w.cta.index)
		case "%nctaid.x":
			v = uint64(w.run.l.Grid)
		case "%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z":
			v = 0
		case "%ntid.y", "%ntid.z", "%nctaid.y", "%nctaid.z":
			v = 1
		case "%laneid":
			v = uint64(l)
		case "%warpid":
			v = uint64(first / warpSize)
		case "%nwarpid":
			v = uint64((w.run.l.Block + warpSize - 1) / warpSize)
		case "%smid":
			v = uint64(w.cta.sm)
		case "%nsmid":
			v = uint64(max(w.run.cfg.SMs, 1))
		case "%lanemask_eq":
			v = 1 << l
		case "%lanemask_lt":
			v = 1<<l - 1
		case "%lanemask_le":
			v = 2<<l - 1
		case "%lanemask_gt":
			v = uint64(^uint32(2<<l - 1))
		case "%lanemask_ge":
			v = uint64(^uint32(1<<l - 1))
		case "%dynamic_smem_size":
			v = uint64(w.run.l.SharedBytes)
		case "%total_smem_size":
			v = uint64(len(w.cta.shared))
		case "WARP_SZ":
			v = warpSize
		default:
			panic(fmt.Sprintf("exec: special register %s is not filled", s.name))
		}
		d[l] = v
	}
}
