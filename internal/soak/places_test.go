//go:build linux

package soak

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
	"github.com/nvls-allreduce/nvls-allreduce/internal/slurmtest"
)

// place is a run in a place where something is full from the start, or with
// another program.
type place struct {
	name     string
	launcher launcher
	job      job
	exits    []int // those allowed; nil: any
	words    *regexp.Regexp
	outcome  outcome
	problems []string
}

func (p *place) judge() {
	o := p.outcome
	bad := func(text string) { p.problems = append(p.problems, text) }
	if o.stuck || len(o.left) > 0 || o.took > startBound {
		bad("it did not end, or processes were left")
	}
	if len(o.stray) > 0 {
		bad("files were left beside the result: " + strings.Join(o.stray, " "))
	}
	if p.exits != nil && !slices.Contains(p.exits, o.exit) {
		bad("another exit code was expected")
	}
	if o.exit == 0 && (o.run == nil || o.run.Status.State != result.Complete) {
		bad("exit code 0 without a complete result")
	}
	if p.words != nil && !p.words.MatchString(o.said) {
		bad("it does not say " + p.words.String())
	}
}

// TestPlaces runs jobs where results cannot be written, shared memory is full, and
// one rank is of another build; without srun, but in a whole soak.
func TestPlaces(t *testing.T) {
	if os.Geteuid() != 0 {
		slurmtest.Skip(t, "mounting a small file system needs root")
	}
	launchers := []launcher{local, openMPI, mpich}
	if everything() {
		cluster := slurmtest.Start(t)
		launchers = append(launchers, slurm(t, cluster, "pmix"), slurm(t, cluster, "pmi2"))
	}
	var places []*place
	for _, l := range launchers {
		differ := regexp.MustCompile(`rank [01] and rank [012] are not the same program.*another build`)
		places = append(places,
			&place{name: "full disk", launcher: l, exits: []int{6}, words: regexp.MustCompile(`cannot write the results.*no space left on device`),
				job: job{launcher: l, program: program, disk: "4k"}},
			&place{name: "full /dev/shm", launcher: l,
				job: job{launcher: l, program: program, shm: "16k"}},
			&place{name: "another build of rank 1", launcher: l, exits: []int{6}, words: differ,
				job: job{launcher: l, program: program, other: faulty, odd: 1}},
			&place{name: "another build of rank 0", launcher: l, exits: []int{6}, words: differ,
				job: job{launcher: l, program: program, other: faulty, odd: 0}})
	}
	each(len(places), width(), func(i int) {
		p := places[i]
		p.outcome = p.job.run(t)
		if p.judge(); len(p.problems) > 0 {
			t.Errorf("%s, %s: exit %d after %v: %s\n%s", p.name, p.launcher.name, p.outcome.exit, p.outcome.took, strings.Join(p.problems, "; "), shorten(p.outcome.said))
		}
	})
	t.Logf("%d runs", len(places))
	if everything() {
		placesTable = places
	}
}
