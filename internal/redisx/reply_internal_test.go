package redisx

import (
	"errors"
	"math"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/lease"
)

func TestImpossibleRepliesAreErrors(t *testing.T) {
	const now, tooMuch, code, zero = 1_800_000_000_000_000, algorithm.MaxExact + 1, -algorithm.MaxExact, grantZero
	s := frozenStore(t)
	for _, row := range []struct {
		why   string
		reply []int64 // to a claim of a bucket, and then to one of a bucket and a window
		good  bool
	}{
		{"nothing is used", []int64{now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, true},
		{"a request in flight is in the way", []int64{now, 0, code * held, 1_000_000, 0, 9, 9, zero, 0, 0, 0, 0, 0, 0}, true},
		{"both are rare", []int64{now, 0, code * rare, 0, 0, 0, 1, zero, code * held, 0, 0, 0, 0, zero, 7, 5, 0, 7, zero + 3}, true},
		{"a cost never fits", []int64{now, 0, -1, 0, 0, 0, 0, 0, 0, 9, 0}, true},
		{"more is used than there is", []int64{now, 0, 0, 0, 0, 0, 0, 0, 0, 11, 1}, true},
		{"requests were taken away", []int64{now, 0, code * rare, 0, 0, 0, 1, zero - 3, 0, 0, 0, 0, 9, 0}, true},
		{"less than nothing is used", []int64{now, 0, 0, 0, 0, 0, 0, 0, 0, -3, 0}, false},
		{"a wait below never", []int64{now, 0, -2, 0, 0, 0, 0, 0, 0, 0, 0}, false},
		{"no such wait", []int64{now, 0, tooMuch, 0, 0, 0, 0, 0, 0, 0, 0}, false},
		{"no such level", []int64{now, 0, 0, tooMuch, 0, 0, 0, 0, 0, 0, 0}, false},
		{"a level below none", []int64{now, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0}, false},
		{"a level of a tick ago", []int64{now, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, false},
		{"a level of later", []int64{now, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0}, false},
		{"no such number used", []int64{now, 0, 0, 0, 0, 0, 0, 0, 0, math.MinInt64, 0}, false},
		{"no such refill", []int64{now, 0, 0, 0, 0, 0, 0, 0, 0, 1, -1}, false},
		{"no such reset", []int64{now, 0, 0, 0, 0, 0, 0, 0, 0, 1, tooMuch}, false},
		{"no so many remain", []int64{now, 0, code * rare, 0, tooMuch, 0, 1, zero, 0, 0, 0, 0, 0, 0, 0}, false},
		{"no such grant", []int64{now, 0, code * rare, 0, 0, 0, 1, tooMuch + zero, 0, 0, 0, 0, 0, 0}, false},
		{"no such code", []int64{now, 0, code * (full + 1), 1, 0, 9, 9, zero, 0, 0, 0, 0, 0, 0}, false},
		{"one failed", []int64{now, 0, code * failed, 0, 0, 0, 0, 0, 0}, false},
		{"a clock is far off", []int64{now, 0, code * farOff, 0, 0, 0, 0, 0, 0}, false},
		{"a log is full", []int64{now, 0, code * full, 0, 0, 0, 0, 0, 0}, false},
		{"too much", []int64{now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false},
		{"too little", []int64{now, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false},
		{"nothing of the second", []int64{now, 0, 0, 0, 0}, false},
		{"rare, without what is granted", []int64{now, 0, 0, 0, 0, code * rare, 0, 5, 0, 0, 0, 9, 0, 0}, false},
		{"nothing of either", []int64{now, 0}, false},
		{"no number of repairs", []int64{now}, false},
		{"nothing", nil, false},
	} {
		one := s.jobOf(t, core.Claim{Key: "a", Limits: core.MustParseLimits("5/m")})
		two := s.jobOf(t, core.Claim{Key: "b", Limits: core.MustParseLimits("5/m, 9/h;fixed-window")})
		err := s.decider.server.deliver(row.reply, []*job{one, two})
		if err == nil {
			err = errors.Join(one.read(), two.read())
		}
		if (err == nil) != row.good {
			t.Errorf("%s: %d: %v, want it to be good: %v", row.why, row.reply, err, row.good)
		}
	}
}

func TestImpossibleRepliesToLeasesAreErrors(t *testing.T) {
	const code = -algorithm.MaxExact
	s := frozenStore(t)
	for _, row := range []struct {
		reply []int64
		good  bool
	}{
		{[]int64{1, 0, code * rare, 9, 0, 1, 0, 5, grantZero}, true},
		{[]int64{1, 0, code * held, 0, 0, 1, 0, 5, grantZero}, true},
		{[]int64{1, 0, code * rare, 10, 0, 1, 0, 5, grantZero}, false}, // more than was wanted
		{[]int64{1, 0, code * rare, -1, 0, 1, 0, 5, grantZero}, false},
		{[]int64{1, 0, 0, 1, 0, 5}, false}, // no code
		{[]int64{1, 0, code * rare, 9}, false},
		{[]int64{1, 0}, false},
		{[]int64{1, 0, code * rare, 9, 0, 1, 0, 5, grantZero, 9}, false},
		{[]int64{1, 0, code * failed}, false},
	} {
		c := core.Claim{Key: "a", Limits: core.MustParseLimits("5/m"), Peek: true}
		j, x := s.jobOf(t, c), exchange(t, c, 9, lease.Unused{})
		j.add(s.decider.layout, c.Rule, c.Key, x.Compiled, op{does: lend, cost: 9})
		j.prepare(false)
		err := s.decider.server.deliver(row.reply, []*job{j})
		if err == nil {
			err = j.read()
		}
		if (err == nil) != row.good {
			t.Errorf("%d: %v, want it to be good: %v", row.reply, err, row.good)
		}
	}
}

func TestRepliesThatAreNotWordsAreErrors(t *testing.T) {
	for text, good := range map[string]bool{"": true, textOf([]int64{1, -2}): true, "1": false, textOf([]int64{1}) + "\x00": false} {
		if words, err := wordsOf(text); (err == nil) != good || good && textOf(words) != text {
			t.Errorf("%q: %d, %v", text, words, err)
		}
	}
}
