package redisx

import (
	"errors"
	"testing"

	"github.com/spillgate/spillgate/internal/algorithm"

	"github.com/spillgate/spillgate/core"
)

func TestImpossibleRepliesAreErrors(t *testing.T) {
	s := frozenStore(t)
	for _, row := range []struct {
		reply []int64
		good  bool
	}{
		{[]int64{1, 0, 5, 6, 7}, true},
		{[]int64{1, 0, 0, 6, 7}, true},
		{[]int64{1, 0, inFull, 0, 5, 0, 5, 6, 7}, true}, // in full for the first
		{[]int64{1, 0, held, 0, 5, 0, 5, 6, 7}, true},
		{[]int64{1, 0, inFull, 0, algorithm.MaxExact + 1, 0, 5, 6, 7}, false}, // no such number
		{[]int64{1, 0, inFull, 0, -1, 0, 5, 6, 7}, false},
		{[]int64{1, 0, inFull, 0, 5, algorithm.MaxExact + 1, 5, 6, 7}, false}, // no such wait
		{[]int64{1, 0, inFull, 0, 5, -1, 5, 6, 7}, false},
		{[]int64{1, 0, inFull, 0, 5, 0, algorithm.MaxExact + 1, 6, 7}, false},
		{[]int64{1, 0, 5, 6, 7, 8}, false},
		{[]int64{1, 0, 5, 6}, false},
		{[]int64{1, 0}, false},
		{[]int64{1}, false},
	} {
		one := s.jobOf(t, core.Claim{Key: "a", Limits: core.MustParseLimits("5/m")})
		two := s.jobOf(t, core.Claim{Key: "b", Limits: core.MustParseLimits("5/m, 9/h")})
		err := s.deliver(row.reply, []*job{one, two})
		if err == nil {
			err = errors.Join(one.read(), two.read())
		}
		if (err == nil) != row.good {
			t.Errorf("%d: %v, want it to be good: %v", row.reply, err, row.good)
		}
	}
}

func TestLevelIsAnErrorForOtherLimits(t *testing.T) {
	s := frozenStore(t)
	for _, l := range []core.Limit{core.PerMinute(5).Using(core.FixedWindow), core.PerDay(1_000_000), core.PerMinute(0)} {
		p := s.jobOf(t, core.Claim{Key: "k", Limits: []core.Limit{l}})
		for _, level := range []int64{5, denied - 5} {
			if p.reply = []int64{level}; p.read() == nil {
				t.Errorf("%v: %d gives %+v", l, level, p.usages)
			}
		}
	}
}

func TestRepliesToLeasesThatCannotBe(t *testing.T) {
	s := frozenStore(t)
	for _, row := range []struct {
		reply []int64
		good  bool
	}{
		{[]int64{1, 0, inFull, 0, 5, 0, 5, 9}, true},
		{[]int64{1, 0, held, 0, 5, 0, 5, 0}, true},
		{[]int64{1, 0, 5, 9}, true}, // of a plain one
		{[]int64{1, 0, denied - 5, 0}, true},
		{[]int64{1, 0, 5, 10}, false},
		{[]int64{1, 0, inFull, 0, 5, 0, 5, 10}, false}, // more than was wanted
		{[]int64{1, 0, inFull, 0, 5, 0, 5, -1}, false},
		{[]int64{1, 0, inFull, 0, 5, 0, 5}, false},
		{[]int64{1, 0, inFull}, false},
		{[]int64{1, 0, 5}, false},
		{[]int64{1, 0, inFull, 0, 5, 0, 5, 9, 9}, false},
		{[]int64{1, 0, failed}, false},
	} {
		j := s.leasedJob(t, core.Claim{Key: "a", Limits: core.MustParseLimits("5/m")}, 9, backs{})
		err := s.deliver(row.reply, []*job{j})
		if err == nil {
			err = j.read()
		}
		if (err == nil) != row.good {
			t.Errorf("%d: %v, want it to be good: %v", row.reply, err, row.good)
		}
	}
}
