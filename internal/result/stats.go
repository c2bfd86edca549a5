package result

import (
	"math"
	"slices"
)

// Stats summarises times of iterations, in µs.
type Stats struct {
	N    int     `json:"n"`
	Min  float64 `json:"min_us"`
	P50  float64 `json:"p50_us"` // Median
	P99  float64 `json:"p99_us"` // Percentile
	Max  float64 `json:"max_us"`
	Mean float64 `json:"mean_us"`
}

// Summarize computes the statistics of times; nil when there are none.
func Summarize(times []float64) *Stats {
	if len(times) == 0 {
		return nil
	}
	s := slices.Sorted(slices.Values(times))
	sum := 0.0
	for _, t := range s {
		sum += t
	}
	return &Stats{
		N: len(s), Min: s[0], Max: s[len(s)-1],
		P50: Median(s), P99: Percentile(s, 99),
		// Rounding must not put the mean outside the range.
		Mean: min(max(sum/float64(len(s)), s[0]), s[len(s)-1]),
	}
}

// Median gives the median of sorted times: the middle one, or the mean of the two
// middle ones of an even number. It is NaN when there are none.
func Median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return sorted[(n-1)/2]/2 + sorted[n/2]/2 // a sum might overflow
}

// Percentile gives the nearest-rank percentile p (0 to 100) of sorted times:
// the smallest value with at least p per cent of all values at or below it. It
// is always one of the values; NaN when there are none.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
