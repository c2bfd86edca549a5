package programtest

import (
	"strings"
	"sync"
)

// Output collects what a process writes, and can be read meanwhile.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
