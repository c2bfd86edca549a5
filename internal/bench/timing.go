package bench

import (
	"context"
	"slices"
	"time"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// timed is what one rank measured of a loop.
type timed struct {
	total time.Duration // from before the first launch until all work is done
	host  time.Duration // of it, until the last launch returned
}

// loop runs n iterations as nccl-tests does: start together, launch all, then wait
// once. It ends in a vote.
func (b *bench) loop(ctx context.Context, calls []collective.Prepared, n int) (timed, error) {
	s := b.group.Stream()
	return b.section(ctx, func() error { return enqueue(s, calls, n) })
}

// section times work from a common start until the device has done it, and votes
// on the outcome. What is not part of that, the clock does not see: setting up the
// wait, and asking how the kernels ended, took 1 µs of an iteration when 20 were timed.
func (b *bench) section(ctx context.Context, work func() error) (timed, error) {
	at, err := b.node.StartTime(ctx, "start timing")
	if err != nil {
		return timed{}, err
	}
	waiting, limit, done := b.watched(ctx)
	defer done()
	// Asking the stream meanwhile keeps what a launch needs in the caches: after a
	// wait for peers the first launch took some 20 µs longer than the others.
	for s := b.group.Stream(); err == nil && time.Now().Before(at); {
		_, err = s.Query()
	}
	var t timed
	start := time.Now()
	if err == nil {
		err = work()
	}
	t.host = time.Since(start)
	if err == nil {
		limit()
		err = b.group.Drain(waiting)
	}
	t.total = time.Since(start)
	if err == nil {
		err = b.group.Check()
	}
	return t, b.node.Vote(ctx, "run all-reduces", err)
}

func enqueue(s device.Stream, calls []collective.Prepared, n int) error {
	for i := range n {
		if err := calls[i%len(calls)].Enqueue(s); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the group's stream.
func (b *bench) wait(ctx context.Context) error {
	ctx, limit, done := b.watched(ctx)
	defer done()
	limit()
	return b.group.Wait(ctx)
}

// watched is a context for waiting for the device. When a rank has left, nothing is
// worth waiting for. limit starts the time that the device has once everything is
// launched: kernels that wait for their peers end by themselves after the timeout,
// one after the other; beyond that the device is lost.
func (b *bench) watched(ctx context.Context) (_ context.Context, limit, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, unwatch := b.node.Watch(ctx)
	after := 2 * b.cfg.Timing.Timeout
	stop := func() bool { return false }
	limit = func() { stop = time.AfterFunc(after, func() { cancel(&deviceTimeout{after}) }).Stop }
	return ctx, limit, func() { stop(); unwatch(); cancel(nil) }
}

type deviceTimeout struct{ after time.Duration }

func (d *deviceTimeout) Error() string {
	return "work was not done within " + d.after.String() + " (twice timing.timeout)"
}

// time fills in a row's times.
func (b *bench) time(ctx context.Context, row *result.Row, calls []collective.Prepared) error {
	t := b.cfg.Timing
	if _, err := b.loop(ctx, calls, max(t.Warmup, 1)); err != nil {
		return err
	}
	run, free, err := b.batch(ctx, calls, t.Iters)
	if err != nil {
		return err
	}
	defer free()
	iterations := t.Iters * max(t.Graph, 1)
	took, err := b.section(ctx, func() error {
		for range max(t.Graph, 1) {
			if err := run(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var each []float64
	if t.PerIteration && t.Graph == 0 {
		if each, err = b.eachIteration(ctx, calls, t.Iters); err != nil {
			return err
		}
	}
	return b.join(ctx, row, took, iterations, each)
}

// batch prepares n iterations that run enqueues: one by one, or where the run
// wants graphs as a graph, which has then been launched once.
func (b *bench) batch(ctx context.Context, calls []collective.Prepared, n int) (run func() error, free func(), err error) {
	s := b.group.Stream()
	if b.cfg.Timing.Graph == 0 {
		return func() error { return enqueue(s, calls, n) }, func() {}, nil
	}
	g, err := b.capture(ctx, calls, n)
	if err != nil {
		return nil, nil, err
	}
	run, free = func() error { return s.LaunchGraph(g) }, func() { b.free(g) }
	if _, err := b.section(ctx, run); err != nil {
		free()
		return nil, nil, err
	}
	return run, free, nil
}

// capture records n iterations into a graph.
func (b *bench) capture(ctx context.Context, calls []collective.Prepared, n int) (device.Graph, error) {
	s := b.group.Stream()
	g, err := func() (device.Graph, error) {
		if err := s.BeginCapture(); err != nil {
			return nil, err
		}
		err := enqueue(s, calls, n)
		g, endErr := s.EndCapture()
		if err != nil {
			return nil, err
		}
		return g, endErr
	}()
	return g, b.node.Vote(ctx, "capture a graph", err)
}

// eachIteration times iterations apart, by events on the device, in µs.
func (b *bench) eachIteration(ctx context.Context, calls []collective.Prepared, n int) ([]float64, error) {
	s := b.group.Stream()
	return b.eachOf(ctx, n, func(i int) error { return calls[i%len(calls)].Enqueue(s) })
}

// eachOf times n pieces of work on the group's stream by an event between any
// two, in µs.
func (b *bench) eachOf(ctx context.Context, n int, work func(i int) error) ([]float64, error) {
	s := b.group.Stream()
	events := make([]device.Event, n+1)
	defer func() {
		for _, e := range events {
			if e != nil {
				b.free(e)
			}
		}
	}()
	var err error
	for i := range events {
		if err == nil {
			events[i], err = b.group.Device().NewEvent()
		}
	}
	if err := b.node.Vote(ctx, "make events", err); err != nil {
		return nil, err
	}
	_, err = b.section(ctx, func() error {
		if err := s.Record(events[0]); err != nil {
			return err
		}
		for i := range n {
			if err := work(i); err != nil {
				return err
			}
			if err := s.Record(events[i+1]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	times := make([]float64, n)
	for i := range times {
		d, e := events[i+1].Since(events[i])
		if e != nil {
			err = e
		}
		times[i] = microseconds(d)
	}
	return times, b.node.Vote(ctx, "read events", err)
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// join makes one row of what the ranks measured.
func (b *bench) join(ctx context.Context, row *result.Row, mine timed, iterations int, each []float64) error {
	type times struct {
		Time, Host float64
		Each       []float64
	}
	all, err := gather(ctx, b.node, "join times", times{
		microseconds(mine.total) / float64(iterations), microseconds(mine.host) / float64(iterations), each})
	if err != nil {
		return err
	}
	var time, host []float64
	for _, a := range all {
		time, host = append(time, a.Time), append(host, a.Host)
		for i, v := range a.Each {
			each[i] = max(each[i], v)
		}
	}
	row.Time = average(b.cfg.Timing.Average, time)
	h := average(b.cfg.Timing.Average, host)
	row.HostTime = &h
	row.Iterations, row.Times = result.Summarize(each), each
	return nil
}

// average joins the ranks' times as the configuration says.
func average(how string, v []float64) float64 {
	switch how {
	case configs.AverageRank0:
		return v[0]
	case configs.AverageMin:
		return slices.Min(v)
	case configs.AverageMax:
		return slices.Max(v)
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
