package recent_test

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/recent"
)

func TestAge(t *testing.T) {
	const pair, sameCell = uint64(7<<32 | 5), uint64(8<<32 | 5)
	for _, at := range []time.Duration{5 * time.Second, (1<<32 - 1) * time.Microsecond} {
		var p recent.Pairs
		age := p.Age(pair, at)
		expect.Equal(t, age, math.MaxInt64, "recorded before the first time")
		p.Note(pair, at)
		for _, after := range []time.Duration{0, time.Microsecond, time.Second, time.Hour} {
			age := p.Age(pair, at+after)
			expect.True(t, age == after, "%v after it was recorded: %v", after, age)
		}
		age = p.Age(sameCell, at)
		expect.Equal(t, age, math.MaxInt64, "another pair was recorded before")
		p.Note(sameCell, at)
		expect.Equal(t, p.Age(pair, at), math.MaxInt64, "a pair is recorded beside another one in its cell")
	}
}
