package plots

import (
	"strings"
	"unicode"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// clean makes one line of s, without the control characters that an SVG may not
// have.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Join(strings.Fields(s), " ")
}

// wrap joins pieces by a separator and breaks the text into lines of at most
// room: between pieces where it can, else between words. A word is never broken.
func wrap(s text.Style, pieces []string, separator string, room vg.Length) []string {
	var lines []string
	for _, p := range pieces {
		p = clean(p)
		last := len(lines) - 1
		if last >= 0 && s.Width(lines[last]+separator+p) <= room {
			lines[last] += separator + p
			continue
		}
		start := len(lines)
		for _, w := range strings.Fields(p) {
			last := len(lines) - 1
			if last >= start && s.Width(lines[last]+" "+w) <= room {
				lines[last] += " " + w
			} else {
				lines = append(lines, w)
			}
		}
	}
	return lines
}
