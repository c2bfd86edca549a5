//go:build linux

package slurmtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports are taken from below the range from which Linux gives ports to clients and
// to listeners that ask for any (32768 and up by default): between the look and
// the daemon's own bind, nobody gets one of them by chance.
const (
	firstPort = 20000
	lastPort  = 32767
)

// reservePort finds a port of 127.0.0.1 that nothing listens on, and keeps it from
// other clusters of this package, in other test processes too, until the test has
// ended: an abstract socket is its lock, which goes with the process.
func reservePort(t testing.TB) int {
	t.Helper()
	const n = lastPort - firstPort + 1
	start := rand.IntN(n)
	for i := range n {
		port := firstPort + (start+i)%n
		lock, err := net.Listen("unix", fmt.Sprintf("@slurmtest.port.%d", port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			lock.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { lock.Close() })
		return port
	}
	t.Fatalf("slurmtest: no free port from %d to %d", firstPort, lastPort)
	return 0
}
