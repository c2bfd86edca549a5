//go:build linux

package mpiboot

import (
	"fmt"
	"os"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// EnvHostID overrides what tells one host from another, for containers that
// are given random host names, or to play several hosts on one.
const EnvHostID = "NVLS_ALLREDUCE_HOSTID"

// host is one rank's account of where it runs.
type host struct {
	Name     string // for people
	Boot     string // the kernel's boot id
	Override string // EnvHostID, "" when not set
	Identity string // equal on two ranks if and only if they share a kernel
	Socket   string // where the rank listens; "" before it does
	Network  string // its network namespace, "" when that cannot be read
	PID      string // its process namespace, likewise
}

// thisHost takes host name and boot id together: the name alone repeats among
// containers, the boot id alone among machines cloned while they ran.
func thisHost() (host, error) {
	name, err := os.Hostname()
	if err != nil {
		return host{}, fmt.Errorf("host name: %w", err)
	}
	h := host{Name: name, Override: os.Getenv(EnvHostID), Network: namespaceOf("self", "net"), PID: namespaceOf("self", "pid")}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil && h.Override == "" {
		return host{}, fmt.Errorf("boot id: %w", err)
	}
	h.Boot = strings.TrimSpace(string(boot))
	if h.Identity = h.Override; h.Identity == "" {
		h.Identity = name + " " + h.Boot
	}
	return h, nil
}

// whySeveral says which evidence made hosts of the ranks, one host for each of
// groups, and what to do if they are one after all.
func whySeveral(hosts []host, groups [][]int) (why, do string) {
	name, boot, override := true, true, false // whether all are equal
	for _, g := range groups {
		h, first := hosts[g[0]], hosts[0]
		name = name && h.Name == first.Name
		boot = boot && h.Boot == first.Boot
		override = override || h.Override != ""
	}
	do = "start all ranks on one node: srun --nodes=1, or mpirun with a host list of one"
	one := EnvHostID + " to the same text on all ranks"
	switch {
	case override:
		return EnvHostID + " differs among the ranks, which stands for host name and boot id", do + "; if they are on one node, set " + one + ", or unset it on all"
	case boot && hosts[0].Boot != "":
		return "their host names differ, but the boot id is the same: containers of one node that have host names of their own",
			"set " + one + ", or give all containers the host's name"
	case name:
		return "their boot ids differ, though the host names are equal", do + "; if they are containers of one node, set " + one
	}
	return "their host names and boot ids differ", do + "; if they are containers of one node that hide it, set " + one
}

// separateNetworks explains why abstract sockets did not reach: ranks of this
// rank's host are in network namespaces of their own. nil where they are not, or
// where that is not known.
func separateNetworks(hosts []host, me int, err error) error {
	apart := false
	var where []string
	for r, h := range hosts {
		if h.Identity != hosts[me].Identity {
			continue
		}
		if h.Network == "" {
			return nil
		}
		apart = apart || h.Network != hosts[me].Network
		where = append(where, fmt.Sprintf("rank %d in %s", r, h.Network))
	}
	if !apart {
		return nil
	}
	return &failure.Error{Code: failure.Unavailable, What: "the ranks of " + hosts[me].Name + " are in different network namespaces",
		Where: strings.Join(where, ", "), Why: "the abstract sockets over which they meet do not reach from one to another", Err: err,
		Do: "set socket_dir under [bootstrap] (--socket-dir) to a folder that all ranks share, or do not give each container a network of its own", By: failure.User}
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
