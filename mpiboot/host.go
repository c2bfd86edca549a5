//go:build linux

package mpiboot

import (
	"fmt"
	"os"
	"strings"
)

// EnvHostID overrides what tells one host from another, for containers that
// are given random host names, or to play several hosts on one.
const EnvHostID = "NVLS_ALLREDUCE_HOSTID"

// host is one rank's account of where it runs.
type host struct {
	Name     string // for people
	Identity string // equal on two ranks if and only if they share a kernel
	Socket   string // where the rank listens; "" before it does
}

// thisHost takes host name and boot id together: the name alone repeats among
// containers, the boot id alone among machines cloned while they ran.
func thisHost() (host, error) {
	name, err := os.Hostname()
	if err != nil {
		return host{}, fmt.Errorf("host name: %w", err)
	}
	if id := os.Getenv(EnvHostID); id != "" {
		return host{Name: name, Identity: id}, nil
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return host{}, fmt.Errorf("boot id: %w", err)
	}
	return host{Name: name, Identity: name + " " + strings.TrimSpace(string(boot))}, nil
}

// ranksByHost groups world ranks by host identity, hosts in order of their
// first rank, ranks ascending.
func ranksByHost(hosts []host) [][]int {
	var groups [][]int
	at := map[string]int{}
	for rank, h := range hosts {
		i, seen := at[h.Identity]
		if !seen {
			i = len(groups)
			at[h.Identity] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], rank)
	}
	return groups
}

// rankList writes sorted ranks for people: "rank 3", "ranks 0, 2 and 5",
// "ranks 0-7".
func rankList(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if j-i >= 2 {
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
		} else {
			for k := i; k <= j; k++ {
				parts = append(parts, fmt.Sprint(ranks[k]))
			}
		}
		i = j + 1
	}
	if n := len(parts); n > 1 {
		return "ranks " + strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return "ranks " + parts[0]
}
