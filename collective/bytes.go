package collective

import "fmt"

// FormatBytes writes a size with the largest binary unit that divides it:
// 65536 is "64K", 1000 is "1000".
func FormatBytes(n uint64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{30, "G"}, {20, "M"}, {10, "K"}} {
		if n != 0 && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d%s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprint(n)
}
