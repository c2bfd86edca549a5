package configs

import (
	"fmt"
	"iter"
)

// maxRows bounds a sweep; more sizes are a mistyped step.
const maxRows = 10000

// Sizes gives the message sizes of the sweep in bytes, as nccl-tests makes
// them: each step is taken from the unrounded size before it and rounded down
// to whole elements of elemSize bytes. Equal sizes come once; a size of zero
// only when MinBytes is 0. The configuration must be valid.
func (c *Config) Sizes(elemSize int) []uint64 {
	var out []uint64
	for n := range c.Sweep.steps(uint64(elemSize)) {
		n -= n % uint64(elemSize)
		if len(out) > 0 && out[len(out)-1] == n || n == 0 && c.Sweep.MinBytes > 0 {
			continue
		}
		out = append(out, n)
	}
	return out
}

// Rounding tells what Sizes did to the steps of the sweep for elements of elemSize
// bytes, in words; "" when all steps are whole elements.
func (c *Config) Rounding(elemSize int) string {
	steps, rounded := 0, 0
	for n := range c.Sweep.steps(uint64(elemSize)) {
		if steps++; n%uint64(elemSize) != 0 {
			rounded++
		}
	}
	if rounded == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of the %d sizes are rounded down to whole elements of %d bytes", rounded, steps, elemSize)
	if sizes := c.Sizes(elemSize); len(sizes) > 0 && sizes[0] != uint64(c.Sweep.MinBytes) {
		text += fmt.Sprintf("; the sweep begins at %d bytes and not at %d", sizes[0], uint64(c.Sweep.MinBytes))
	}
	return text
}

// steps walks the unrounded sizes. From 0 a factor goes on at elem, where
// nccl-tests would not end. It never passes MaxBytes, and so cannot overflow.
func (s Sweep) steps(elem uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		last := uint64(s.MaxBytes)
		for n := uint64(s.MinBytes); n <= last; {
			if !yield(n) {
				return
			}
			switch {
			case s.Factor > 1 && n == 0:
				n = elem
			case s.Factor > 1:
				next := float64(n) * s.Factor
				if next > float64(last) {
					return
				}
				n = max(uint64(next), n+1)
			case s.StepBytes > 0 && uint64(s.StepBytes) <= last-n:
				n += uint64(s.StepBytes)
			default:
				return
			}
		}
	}
}
