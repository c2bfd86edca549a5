//go:build faultinject

package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stageCount counts how often this process entered each stage.
var stageCount = struct {
	sync.Mutex
	n map[string]int
}{n: map[string]int{}}

// LateBy is how late a rank is with the action "late".
const LateBy = 10 * time.Second

// stageFault does to this rank at a stage what NVLS_ALLREDUCE_FAULT says.
// Actions: kill and stop (the signals), exit (with code 1, saying nothing), close
// (every connection to other ranks), late (LateBy), nofile (from then on no
// descriptor can be opened), fill (the file system at NVLS_ALLREDUCE_FAULT_FOLDER).
func stageFault(w io.Writer) func(rank int, stage string) {
	text := os.Getenv(faultVariable)
	if observed, ok := strings.CutPrefix(text, "stages:"); ok {
		return func(rank int, stage string) {
			if strconv.Itoa(rank) == observed {
				fmt.Fprintf(w, "stage %s\n", stage)
			}
		}
	}
	f := strings.SplitN(text, ":", 5)
	if f[0] != "at" || len(f) != 5 {
		return nil
	}
	return func(rank int, stage string) {
		if strconv.Itoa(rank) != f[1] || stage != f[4] {
			return
		}
		stageCount.Lock()
		stageCount.n[stage]++
		n := stageCount.n[stage]
		stageCount.Unlock()
		if strconv.Itoa(n) == f[3] {
			fmt.Fprintf(w, "fault: rank %d, pid %d: %s at %s\n", rank, os.Getpid(), f[2], stage)
			act(f[2])
		}
	}
}

// callFault makes driver calls stages.
func (b *bench) callFault() func(call string) {
	told := stageFault(b.process.Stderr)
	if told == nil {
		return nil
	}
	return func(call string) { told(b.world.Rank(), call) }
}

func act(action string) {
	switch action {
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "stop":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(100 * time.Millisecond) // it may reach another thread first
	case "exit":
		os.Exit(1)
	case "late":
		time.Sleep(LateBy)
	case "close":
		for _, fd := range descriptors() {
			// Only this program's sockets between ranks are of this type.
			if t, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil && t == unix.SOCK_SEQPACKET {
				unix.Shutdown(fd, unix.SHUT_RDWR)
			}
		}
	case "nofile":
		top := 0
		for _, fd := range descriptors() {
			top = max(top, fd)
		}
		// Fill the holes below, so that the next descriptor is one too many.
		for {
			fd, err := unix.Dup(2)
			if err != nil || fd > top {
				unix.Close(fd)
				break
			}
		}
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(top + 1), Max: uint64(top + 1)})
	case "fill":
		if err := fill(os.Getenv(folderVariable)); !errors.Is(err, syscall.ENOSPC) {
			panic(fmt.Sprintf("fault injection could not fill %s: %v", os.Getenv(folderVariable), err))
		}
	default:
		panic("fault injection knows no action " + action)
	}
}

// folderVariable names the folder of the action fill.
const folderVariable = "NVLS_ALLREDUCE_FAULT_FOLDER"

// fill writes one file until there is no room, which is the error that it gives.
func fill(folder string) error {
	f, err := os.Create(filepath.Join(folder, "fill"))
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		n, err := f.Write(block)
		if err != nil && n < 4096 && len(block) > 4096 {
			block = block[:4096] // what is left below a block
			continue
		}
		if err != nil {
			return err
		}
	}
}

func descriptors() []int {
	var out []int
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, fd)
		}
	}
	return out
}
