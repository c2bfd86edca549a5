//go:build linux

package mpiboot

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// UniqueID names one run: 128 random bits that rank 0, or the own launcher,
// draws. Sockets, the software device's session and results carry it.
type UniqueID [16]byte

// NewUniqueID draws an id. crypto/rand does not fail on Linux.
func NewUniqueID() UniqueID {
	var id UniqueID
	rand.Read(id[:])
	return id
}

// ParseUniqueID reads what String wrote.
func ParseUniqueID(s string) (UniqueID, error) {
	var id UniqueID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("unique id %q is not %d hexadecimal digits", s, 2*len(id))
	}
	copy(id[:], b)
	return id, nil
}

// String is the id in 32 hexadecimal digits.
func (id UniqueID) String() string { return hex.EncodeToString(id[:]) }
