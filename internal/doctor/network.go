//go:build linux

package doctor

import (
	"net"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// noInterfaceRemedy is for a container with a network of its own.
const noInterfaceRemedy = "start the container with the host's network, or bring the loopback interface up (ip link set lo up)"

// interfacesUp names the network interfaces of this namespace that are up.
func interfacesUp() ([]string, error) {
	all, err := net.Interfaces()
	var up []string
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 {
			up = append(up, i.Name)
		}
	}
	return up, err
}

// network: MPI talks to its launcher over an interface, even on one node.
func network() Finding {
	const id = "network"
	up, err := interfacesUp()
	switch {
	case err != nil:
		return unsure(id, "which network interfaces are up", err, "netlink")
	case len(up) == 0:
		return Finding{ID: id, Severity: Warning, Outcome: No, What: "no network interface is up: Open MPI does not start without one; this program needs none",
			Evidence: evidence("none up", "netlink"), Do: noInterfaceRemedy, By: failure.User}
	}
	return Finding{ID: id, Severity: OK, Outcome: Yes, What: "network interfaces are up", Evidence: evidence(list(up), "netlink")}
}
