package headers

import (
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

// TestPeriodSuffix asks for more periods than the cache holds, each twice, so that some replace others.
func TestPeriodSuffix(t *testing.T) {
	for n := range 1000 {
		for _, unit := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
			l := core.Every(10, time.Duration(n+1)*unit)
			want := "-" + strings.TrimPrefix(l.String(), "10/")
			for range 2 {
				expect.Equal(t, periodSuffix(l.WithBurst(20)), want, "period %v", l.Period)
			}
		}
	}
}
