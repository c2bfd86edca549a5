package importer

import (
	"fmt"
	"slices"
	"strings"
)

// notes collects remarks on tables. The same remark on many tables is one note
// that names the first of them, for a log may have thousands.
type notes struct {
	order  []string
	places map[string][]string
}

func (n *notes) add(place, text string) {
	if n.places == nil {
		n.places = map[string][]string{}
	}
	if _, ok := n.places[text]; !ok {
		n.order = append(n.order, text)
	}
	n.places[text] = append(n.places[text], place)
}

// list writes the notes in the order of their first place.
func (n *notes) list() []string {
	var out []string
	for _, text := range n.order {
		out = append(out, some(n.places[text], 3)+": "+text)
	}
	return out
}

// some joins the first n of list and counts the rest.
func some(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
}

// addUnique appends what is not there yet. It is for short lists.
func addUnique(list *[]string, words ...string) {
	for _, w := range words {
		if w != "" && !slices.Contains(*list, w) {
			*list = append(*list, w)
		}
	}
}
