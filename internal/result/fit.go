package result

import (
	"fmt"
	"strconv"
)

// fit writes x right-aligned in width characters, dropping digits until it
// fits: two decimals, one, none, then an exponent. Rule of nccl-tests 2.19
// (src/util.cu), so that columns line up with its own.
func fit(x float64, width int) string {
	for prec := 2; prec >= 0; prec-- {
		if s := strconv.FormatFloat(x, 'f', prec, 64); len(s) <= width {
			return fmt.Sprintf("%*s", width, s)
		}
	}
	prec := 0
	if width >= 7 {
		prec = 1
	}
	return fmt.Sprintf("%*.*e", width, prec, x)
}

// fitPtr is fit for a number that may be unknown.
func fitPtr(x *float64, width int) string {
	if x == nil {
		return fmt.Sprintf("%*s", width, "N/A")
	}
	return fit(*x, width)
}

// percent writes a share as a percentage in width characters.
func percent(share *float64, width int) string {
	if share == nil {
		return fmt.Sprintf("%*s", width, "N/A")
	}
	return fmt.Sprintf("%*.1f%%", width-1, *share*100)
}
