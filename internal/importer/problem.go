package importer

import (
	"errors"
	"fmt"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// maxProblems is how many faults of the logs are told one by one; a damaged log
// of 100 MB has as many as lines.
const maxProblems = 10

// problems collects what is wrong with the logs.
type problems struct {
	list []error
	more int
}

// at adds a fault of one line; line 0 is the whole file.
func (p *problems) at(file string, line int, what, why string, do string) {
	if len(p.list) >= maxProblems {
		p.more++
		return
	}
	f := &failure.Error{Code: failure.Usage, What: what, Where: place(file, line), Why: why, Do: do}
	if do != "" {
		f.By = failure.User
	}
	p.list = append(p.list, f)
}

// err joins all faults; nil when there are none.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	list := p.list
	if p.more > 0 {
		list = append(list, failure.New(failure.Usage, "and %d more lines that cannot be read", p.more))
	}
	return errors.Join(list...)
}

func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}
