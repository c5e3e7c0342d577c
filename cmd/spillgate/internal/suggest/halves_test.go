package suggest

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

func peaksOf(bursts ...int) *peaks {
	p := newPeaks(1)[0]
	for _, b := range bursts {
		p.add(b)
	}
	return p
}

func TestSmallestBurstThatHitsAtMost(t *testing.T) {
	p := peaksOf(1, 1, 1, 5, 5, 10)
	for n, want := range []int{10, 5, 5, 1, 1, 1, 1} {
		if got := p.least(n); got != want || p.above(got) > n {
			t.Errorf("%d clients may be hit: got a burst of %d, which hits %d; want %d", n, got, p.above(got), want)
		}
	}
}

// In each half, a client starts with empty buckets. A request at the boundary belongs to the second half.
func TestHalvesStartWithEmptyBuckets(t *testing.T) {
	l := learner{index: make(map[string]int)}
	for _, at := range []int64{0, 0, 0, 10, 10} {
		l.key = "a"
		l.record(at)
	}
	l.key = "b"
	l.record(10)
	whole, first, second := l.drain(10)
	for i, want := range []struct {
		p    *peaks
		want string
	}{{whole[0], "map[1:1 5:1]"}, {first[0], "map[3:1]"}, {second[0], "map[1:1 2:1]"}} {
		if got := fmt.Sprint(want.p.counts); got != want.want {
			t.Errorf("part %d: clients by burst are %s, want %s", i, got, want.want)
		}
	}
}

func TestCheckLearnsFromTheFirstHalf(t *testing.T) {
	r := Rate{limit: core.PerSecond(1)}
	c := (&Report{Keep: 100}).check(&r, peaksOf(1, 7), peaksOf(1, 1, 7, 8))
	if c.Burst != 7 || c.Limit != "1/s;burst=7" || c.Learned != 2 || c.Clients != 4 || c.Hit != 1 || c.Percent != 25 || c.Promised != 0 || c.Holds() {
		t.Errorf("got %+v", c)
	}
	if c := (&Report{Keep: 85}).check(&r, peaksOf(1, 7), peaksOf(1, 1, 1, 7, 8)); c.Hit != 1 || !c.Holds() {
		t.Errorf("20%% are hit, 15%% promised: got %+v", c)
	}
}

// The first half has fewer clients, and more of them with large bursts.
func TestSuggestedBurstFitsTheFirstHalf(t *testing.T) {
	var log entries
	for i := range 400 {
		client, sends := fmt.Sprint(i), 1
		if i < 100 {
			sends = 1 + i%4
		}
		for range sends {
			log = append(log, sent(time.Duration(i)*time.Second, client, "/"))
		}
	}
	rep := run(t, perIP, 70, log)
	if c, first := rep.Chosen, rep.Checked; first.Burst <= rep.at(t, c.Rate).Burst || c.Burst != first.Burst {
		t.Errorf("got %+v; the first half alone needs %+v, and all of it %d", c, first, rep.at(t, c.Rate).Burst)
	}
}

func TestFractionsOfSecondsEndTheRange(t *testing.T) {
	log := entries{sent(0, "a", "/"), sent(time.Second, "a", "/")}
	log[1].Seconds = true
	if rep := run(t, perIP, 100, log); rep.Chosen.EvenBurst != 0 {
		t.Errorf("got %+v", rep.Chosen)
	}
}
