//go:build linux

package mpiboot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// Verdict is what one rank brought to a vote.
type Verdict struct {
	Rank int // in the world
	OK   bool
	Text string   // the error's; "" with OK
	Code ExitCode // the error's
	// Follows says that this rank only stopped because another had failed: its
	// error explains nothing. See Node.Watch.
	Follows bool `json:",omitempty"`
}

// VoteError is the outcome of a vote in which at least one rank brought an
// error. It is the same on every rank.
type VoteError struct {
	Stage    string
	Verdicts []Verdict // of all ranks of the host, ascending
}

// Vote is how the ranks of a host decide: each brings the outcome of a stage,
// nil for success. All get nil if all brought nil; else all get the same
// *VoteError. Another error means that the vote itself failed.
func (n *Node) Vote(ctx context.Context, stage string, mine error) error {
	v := Verdict{Rank: n.world[n.me], OK: mine == nil, Code: failure.CodeOf(mine), Follows: consequence(mine)}
	if mine != nil {
		v.Text = shorten(mine.Error(), 16<<10)
	}
	body, err := json.Marshal(v)
	if err != nil {
		return failure.Wrap(failure.Internal, err, "vote at stage %q", stage)
	}
	all, err := n.gather(ctx, kindVote, stage, &message{body: body})
	if err != nil && mine != nil && !consequence(mine) {
		// Nobody else will tell what this rank found.
		return &failure.Error{Code: v.Code, What: fmt.Sprintf("stage %q failed here, and not all ranks could be asked", stage), Err: errors.Join(mine, err)}
	}
	if err != nil {
		return err
	}
	return outcome(stage, n.world, bodies(all))
}

// outcome merges the ballots. The own ballot too is read as it was sent, so that
// all ranks see the same text.
func outcome(stage string, world []int, ballots [][]byte) error {
	e := &VoteError{Stage: stage, Verdicts: make([]Verdict, len(ballots))}
	failed := false
	for i, b := range ballots {
		v := &e.Verdicts[i]
		if err := json.Unmarshal(b, v); err != nil {
			return failure.Wrap(failure.Internal, err, "vote at stage %q: the ballot of rank %d cannot be read", stage, world[i])
		}
		failed = failed || !v.OK
	}
	if !failed {
		return nil
	}
	return e
}

// shorten keeps the beginning of a text.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// causes gives the verdicts that say why: those with errors, without those that
// only follow from another's.
func (e *VoteError) causes() []Verdict {
	var all, own []Verdict
	for _, v := range e.Verdicts {
		if !v.OK {
			all = append(all, v)
			if !v.Follows {
				own = append(own, v)
			}
		}
	}
	if len(own) == 0 {
		return all
	}
	return own
}

// Failed lists the world ranks that brought an error of their own.
func (e *VoteError) Failed() []int {
	var ranks []int
	for _, v := range e.causes() {
		ranks = append(ranks, v.Rank)
	}
	return ranks
}

// Error names the ranks, with equal texts said once.
func (e *VoteError) Error() string {
	var texts []string
	by := map[string][]int{}
	for _, v := range e.causes() {
		if by[v.Text] == nil {
			texts = append(texts, v.Text)
		}
		by[v.Text] = append(by[v.Text], v.Rank)
	}
	n, of := len(e.Failed()), len(e.Verdicts)
	var b strings.Builder
	switch {
	case n == of && len(texts) == 1 && of > 1:
		fmt.Fprintf(&b, "stage %q failed on all %d ranks: %s", e.Stage, of, texts[0])
		return b.String()
	case len(texts) == 1:
		fmt.Fprintf(&b, "stage %q failed on %s of %d: %s", e.Stage, rankList(by[texts[0]]), of, texts[0])
		return b.String()
	}
	fmt.Fprintf(&b, "stage %q failed on %d of %d ranks", e.Stage, n, of)
	for i, t := range texts {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %s", sep, rankList(by[t]), t)
	}
	return b.String()
}

// ExitCode is the highest code among the verdicts that say why.
func (e *VoteError) ExitCode() ExitCode {
	code := failure.OK
	for _, v := range e.causes() {
		code = max(code, v.Code)
	}
	return code
}
