//go:build linux

package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/mpiboot"
)

// Severity says how bad a finding is.
type Severity string

const (
	OK      Severity = "ok"
	Info    Severity = "info"    // worth knowing, costs nothing
	Warning Severity = "warning" // may cost something, or could not be told
	Failed  Severity = "failed"  // costs modes
	Skipped Severity = "skipped" // not asked, and why
)

// Outcome is a probe's answer. It is empty for a plain fact.
type Outcome string

const (
	Yes     Outcome = "yes"
	No      Outcome = "no"
	Unknown Outcome = "could not tell"
)

// Evidence is a value and where it was read.
type Evidence struct {
	Value string `json:"value"`
	From  string `json:"from"`
}

// Finding is what one probe found.
type Finding struct {
	// ID names the kind of finding for scripts and docs/doctor.md:
	// "gpu.masked". It does not change between versions.
	ID       string     `json:"id"`
	Severity Severity   `json:"severity"`
	Outcome  Outcome    `json:"outcome,omitempty"`
	What     string     `json:"what"`
	Evidence []Evidence `json:"evidence,omitempty"`
	Cost     []string   `json:"cost,omitempty"`   // modes that cannot run because of it
	Partly   []string   `json:"partly,omitempty"` // modes that run because of it only for a part of what is asked
	// Exit is the code with which a run ends because of it; 0 stands for Unavailable
	// where the finding costs a mode, and for none elsewhere.
	Exit  failure.Code `json:"exit_code,omitempty"`
	Do    string       `json:"do,omitempty"`
	By    failure.Who  `json:"by,omitempty"` // who can do it
	Ranks []int        `json:"ranks"`        // of the world, ascending
}

// evidence makes the evidence of pairs of value and source.
func evidence(pairs ...string) []Evidence {
	var out []Evidence
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, Evidence{pairs[i], pairs[i+1]})
	}
	return out
}

// unsure makes the finding of a probe that could not be carried out.
func unsure(id, question string, err error, from string) Finding {
	f := Finding{ID: id, Severity: Warning, Outcome: Unknown, What: question, Evidence: evidence(err.Error(), from)}
	if tooManyFiles(err) {
		f.Do, f.By = moreFiles, failure.User
	}
	return f
}

// remedy tells what to do about a limit of the process, and about what nobody knows a
// remedy for.
func (f *Finding) remedy(err error) {
	switch {
	case f.Do != "":
	case tooManyFiles(err):
		f.Do, f.By = moreFiles, failure.User
	case errors.Is(err, unix.EFBIG) || strings.Contains(err.Error(), unix.EFBIG.Error()):
		f.Do, f.By = "raise the limit on the size of files (ulimit -f unlimited)", failure.User
	case f.Severity == Failed:
		f.Do, f.By = "see the evidence; what the other findings say comes first", failure.User
	}
}

// moreFiles is what to do when no more files can be opened.
const moreFiles = "raise the limit on open files (ulimit -n 4096)"

// tooManyFiles says whether err is that no more files can be opened. Votes pass
// errors on as text.
func tooManyFiles(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || strings.Contains(err.Error(), unix.EMFILE.Error())
}

// costs gives a failed finding: outcome no, for these modes.
func costs(id, what string, modes []string, do string, by failure.Who, e ...Evidence) Finding {
	return Finding{ID: id, Severity: Failed, Outcome: No, What: what, Evidence: e, Cost: modes, Do: do, By: by}
}

// fromError makes a failed finding of an error, with the words of the failure in
// it if there is one.
func fromError(id, what string, err error, modes []string, from string) Finding {
	f := costs(id, what, modes, "", "", Evidence{err.Error(), from})
	if code := failure.CodeOf(err); code != failure.Unavailable && code != failure.Internal {
		f.Exit = code
	}
	var vote *mpiboot.VoteError
	var e *failure.Error
	if !errors.As(err, &e) && errors.As(err, &vote) {
		// Votes pass errors on as text.
		if ranks := vote.Failed(); len(ranks) > 0 {
			i := slices.IndexFunc(vote.Verdicts, func(v mpiboot.Verdict) bool { return v.Rank == ranks[0] })
			f.What, f.Do, f.By = apart(vote.Verdicts[i].Text)
		}
		f.remedy(err)
		return f
	}
	if e != nil {
		f.Do, f.By = e.Do, e.By
		parts := []string{e.What}
		switch {
		case e.Why != "":
			parts = append(parts, e.Why)
		case e.Err != nil && len(e.Err.Error()) < longCause:
			parts = append(parts, e.Err.Error())
		}
		f.What = strings.Join(parts, ": ")
		f.Evidence = nil
		if e.Where != "" {
			f.Evidence = append(f.Evidence, Evidence{e.Where, from})
		}
		if e.Err != nil {
			f.Evidence = append(f.Evidence, Evidence{e.Err.Error(), from})
		}
		if len(f.Evidence) == 0 {
			f.Evidence = evidence(cmp.Or(e.Why, e.What), from)
		}
	}
	f.remedy(err)
	return f
}

// longCause is the length of a cause that is told as evidence only.
const longCause = 160

// apart takes the text of a failure apart: what failed and why, and what to do.
func apart(text string) (what, do string, by failure.Who) {
	what, rest, _ := strings.Cut(text, ". To do")
	for _, who := range []failure.Who{failure.User, failure.Administrator} {
		if do, ok := strings.CutPrefix(rest, " ("+string(who)+"): "); ok {
			return what, do, who
		}
	}
	return what, "", ""
}

// merge joins the findings of all ranks: findings[i] are those of rank
// ranks[i]. Equal ones become one that names its ranks. The order is that of the
// first rank, findings of later ranks after those with the same id.
func merge(ranks []int, findings [][]Finding) []Finding {
	var out []Finding
	at := map[string]int{}
	for i, list := range findings {
		for _, f := range list {
			f.Ranks = nil
			key, err := json.Marshal(f)
			if err != nil {
				panic(err) // strings only
			}
			if j, ok := at[string(key)]; ok {
				if !slices.Contains(out[j].Ranks, ranks[i]) {
					out[j].Ranks = append(out[j].Ranks, ranks[i])
				}
				continue
			}
			f.Ranks = []int{ranks[i]}
			place := len(out)
			for j := len(out) - 1; j >= 0; j-- {
				if out[j].ID == f.ID {
					place = j + 1
					break
				}
			}
			for k, j := range at {
				if j >= place {
					at[k] = j + 1
				}
			}
			out = slices.Insert(out, place, f)
			at[string(key)] = place
		}
	}
	return out
}

// list writes words for people: "a", "a and b", "a, b and c".
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

// rankList is list for ranks: "rank 3", "ranks 0 and 2".
func rankList(ranks []int) string {
	words := make([]string, len(ranks))
	for i, r := range ranks {
		words[i] = fmt.Sprint(r)
	}
	if len(ranks) == 1 {
		return "rank " + words[0]
	}
	return "ranks " + list(words)
}

// count writes a number with its noun: "1 GPU", "8 GPUs".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// humanBytes writes a size for people, in binary units.
func humanBytes(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
