package importer

import (
	"bytes"
	"math"
	"strconv"
)

// printed is a number of a log with the error that printing left: the true
// value is within half of the last digit.
type printed struct {
	value, half float64
}

// parse reads a decimal number as C and Python print it; false for all else,
// also for infinities, NaN and negative numbers, which no column here may hold.
func parse(b []byte) (printed, bool) {
	exponent, decimals, point := 0, 0, false
	mantissa := b
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			if point {
				decimals++
			}
		case c == '.' && !point:
			point = true
		case (c == 'e' || c == 'E') && i > 0:
			n, err := strconv.Atoi(string(b[i+1:]))
			if err != nil {
				return printed{}, false
			}
			exponent, mantissa = n, b[:i]
		default:
			return printed{}, false
		}
		if len(mantissa) != len(b) {
			break
		}
	}
	if len(mantissa) == 0 || mantissa[0] == '.' || mantissa[len(mantissa)-1] == '.' {
		return printed{}, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return printed{}, false
	}
	return printed{v, 0.5 * math.Pow10(exponent-decimals)}, true
}

// count reads a whole number.
func count(b []byte) (uint64, bool) {
	if !digits(b) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, err == nil
}

// low and high bound the true value. C rounds to even and Python too, and times
// are averaged before they are divided: a thousandth is allowed on top.
func (p printed) low() float64  { return max(0, p.value-p.half) * 0.999 }
func (p printed) high() float64 { return (p.value + p.half) * 1.001 }

// agrees reports whether p can be a number between low and high.
func (p printed) agrees(low, high float64) bool { return p.high() >= low && p.low() <= high }

// exact reports whether p has three digits or more, so that nothing better can be
// computed from other printed numbers.
func (p printed) exact() bool { return p.half <= 0.005*p.value }

// fields splits a line at white space into dst and gives all of them, or the
// first len(dst) and false when there are more.
func fields(dst [][]byte, line []byte) ([][]byte, bool) {
	n := 0
	for {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 {
			return dst[:n], true
		}
		if n == len(dst) {
			return dst, false
		}
		end := bytes.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		dst[n], line = line[:end], line[end:]
		n++
	}
}
