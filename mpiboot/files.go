//go:build linux

package mpiboot

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// ExchangeFiles gives every rank of the host a descriptor of each other rank's
// file, by local rank; the entry at the own rank is nil. Every rank has to
// bring a file: if one brings nil, all get an error that names it. The received
// files are the caller's to close; mine stays the caller's too.
func (n *Node) ExchangeFiles(ctx context.Context, stage string, mine *os.File) ([]*os.File, error) {
	m := &message{}
	if mine != nil {
		m.files = []*os.File{mine}
	}
	all, err := n.gather(ctx, kindFiles, stage, m)
	runtime.KeepAlive(mine)
	if err != nil {
		return nil, err
	}
	files := make([]*os.File, len(all))
	pe := &PeersError{Stage: stage, Op: kindFiles.String()}
	for i, m := range all {
		switch {
		case len(m.files) != 1:
			pe.Empty = append(pe.Empty, n.world[i])
		case i != n.me:
			files[i] = m.files[0]
		}
	}
	if len(pe.Empty) > 0 {
		closeFiles(files)
		return nil, pe.explain(n.world[n.me], n.host)
	}
	return files, nil
}

// BcastFiles gives every rank of the host descriptors of root's files. The root
// gets its own files back; elsewhere they are the caller's to close. The files
// of the others are not looked at.
func (n *Node) BcastFiles(ctx context.Context, stage string, root int, files []*os.File) ([]*os.File, error) {
	m := &message{}
	if n.me == root {
		m.files = files
		for i, f := range files {
			if f == nil {
				// The others wait for an answer, so this one has to be sent.
				m.files, m.body = nil, fmt.Appendf(nil, "file %d of %d is nil", i, len(files))
				break
			}
		}
	}
	got, err := n.bcast(ctx, kindBcastFiles, stage, root, m)
	runtime.KeepAlive(files)
	if err != nil {
		return nil, err
	}
	if len(got.body) > 0 {
		return nil, failure.New(failure.Internal, "file broadcast at stage %q from rank %d: %s", stage, n.world[root], got.body)
	}
	return got.files, nil
}
