package recent_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/recent"
)

func TestAge(t *testing.T) {
	const pair, sameCell = uint64(7<<32 | 5), uint64(8<<32 | 5)
	for _, at := range []time.Duration{5 * time.Second, (1<<32 - 1) * time.Microsecond} {
		var p recent.Pairs
		if age := p.Age(pair, at); age != recent.Never {
			t.Errorf("recorded %v before the first time", age)
		}
		p.Note(pair, at)
		for _, after := range []time.Duration{0, time.Microsecond, time.Second, time.Hour} {
			if age := p.Age(pair, at+after); age != after {
				t.Errorf("%v after it was recorded: %v", after, age)
			}
		}
		if age := p.Age(sameCell, at); age != recent.Never {
			t.Errorf("another pair was recorded %v before", age)
		}
		if p.Note(sameCell, at); p.Age(pair, at) != recent.Never {
			t.Error("a pair is recorded beside another one in its cell")
		}
	}
}
