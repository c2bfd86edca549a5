package importer

import (
	"fmt"
	"slices"
	"strings"
)

// few is the first of many texts, and their number.
type few struct {
	first []string
	n     int
}

// kept is how many a few keeps.
const kept = 5

func (f *few) add(text string) {
	if f.n++; len(f.first) < kept {
		f.first = append(f.first, text)
	}
}

// some joins the first n, at most kept, and counts the rest.
func (f *few) some(n int) string {
	if f.n <= n {
		return strings.Join(f.first, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(f.first[:n], ", "), f.n-n)
}

// notes collects remarks on tables. The same remark on many tables is one note
// that names the first of them, for a log may have thousands.
type notes struct {
	order  []string
	places map[string]*few
	left   few // places of remarks beyond maxNotes
}

func (n *notes) add(place, text string) { n.addAll(&few{[]string{place}, 1}, text) }

func (n *notes) addAll(places *few, text string) {
	if n.places == nil {
		n.places = map[string]*few{}
	}
	p := n.places[text]
	switch {
	case p != nil:
	case len(n.order) == maxNotes:
		p = &n.left
	default:
		p = &few{}
		n.places[text] = p
		n.order = append(n.order, text)
	}
	for _, x := range places.first {
		p.add(x)
	}
	p.n += places.n - len(places.first)
}

// list writes the notes in the order of their first place.
func (n *notes) list() []string {
	var out []string
	for _, text := range n.order {
		out = append(out, n.places[text].some(3)+": "+text)
	}
	if n.left.n > 0 {
		out = append(out, fmt.Sprintf("%s: further remarks were left out: only the first %d different ones are kept", n.left.some(3), maxNotes))
	}
	return out
}

// some joins the first n of list and counts the rest.
func some(list []string, n int) string {
	f := few{list, len(list)}
	return f.some(n)
}

// addUnique appends what is not there yet. It is for short lists.
func addUnique(list *[]string, words ...string) {
	for _, w := range words {
		if w != "" && !slices.Contains(*list, w) {
			*list = append(*list, w)
		}
	}
}

// word gives s, the same memory for the same text: a log has few names and notes
// and many rows and tables.
func (l *log) word(s string) string {
	if w, ok := l.words[s]; ok {
		return w
	}
	if l.words == nil || len(l.words) >= maxKinds {
		l.words = map[string]string{}
	}
	s = strings.Clone(s)
	l.words[s] = s
	return s
}

// wordOf is word of bytes; a known text needs no memory.
func (l *log) wordOf(b []byte) string {
	if w, ok := l.words[string(b)]; ok {
		return w
	}
	return l.word(string(b))
}
