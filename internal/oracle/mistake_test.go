package oracle_test

import (
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/oracle"
)

// neverEnds does not notice that a lease has ended.
type neverEnds struct{ *oracle.Lease }

func (l neverEnds) Lent(now, sent int64, p oracle.Portion) {
	l.Lease.Lent(now, sent+1<<40, p)
}

// countsTwice adds each loan twice.
type countsTwice struct{ *oracle.Lease }

func (l countsTwice) Lent(now, sent int64, p oracle.Portion) {
	p.Count *= 2
	l.Lease.Lent(now, sent, p)
}

// putsBackTwice puts back twice what a denied request has taken.
type putsBackTwice struct{ *oracle.Lease }

func (l putsBackTwice) PutBack(now int64, taken oracle.Portion) {
	l.Lease.PutBack(now, taken)
	l.Lease.PutBack(now, taken)
}

// putsNothingBack does not put back what a denied request has taken.
type putsNothingBack struct{ *oracle.Lease }

func (putsNothingBack) PutBack(int64, oracle.Portion) {}

// ownClock uses its process's clock as if it were the store's.
type ownClock struct{ *oracle.Lease }

func (l ownClock) Lent(now, sent int64, p oracle.Portion) {
	p.At = now
	l.Lease.Lent(now, sent, p)
}

// TestMistakesAreFound runs schedules of many seeds until one of them finds each mistake.
func TestMistakesAreFound(t *testing.T) {
	const moreAdmitted, notReturned = "more were admitted than the limit and a lease allow", "nobody crashed, and"
	for name, m := range map[string]struct {
		open   func(*oracle.Lease) oracle.Holder
		begins string // the schedule: two processes lease 1000/s;burst=50 for 10 ms
		found  string
	}{
		"a lease that does not end":                {func(l *oracle.Lease) oracle.Holder { return neverEnds{l} }, "\x02\x01\x00\x00\x01", moreAdmitted},
		"a loan that counts twice":                 {func(l *oracle.Lease) oracle.Holder { return countsTwice{l} }, "", moreAdmitted},
		"a denied request that puts back twice":    {func(l *oracle.Lease) oracle.Holder { return putsBackTwice{l} }, "", moreAdmitted},
		"a denied request that puts nothing back":  {func(l *oracle.Lease) oracle.Holder { return putsNothingBack{l} }, "", notReturned},
		"the clock of the process for the store's": {func(l *oracle.Lease) oracle.Holder { return ownClock{l} }, "", "more than still counted"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(1000) {
				_, err := oracle.RunLeases(append([]byte(m.begins), oracle.RandomSchedule(stream, seed)...), func(length int64) oracle.Holder { return m.open(oracle.NewLease(length)) })
				if err != nil && strings.Contains(err.Error(), m.found) {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("no schedule of 1000 has found that %s", m.found)
		})
	}
}
