package headers

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

// periods caches the suffixes of recent periods. Rules with several limits need a suffix for each limit on every
// response, and a look-up is much faster than formatting.
var periods [256]atomic.Pointer[suffix]

type suffix struct {
	period time.Duration
	text   string // "-1m"
}

// periodSuffix returns a hyphen and the period as Limit.String shows it, "-1m", or "-at-once" for a limit without one.
func periodSuffix(l core.Limit) string {
	if l.Algorithm == core.InFlight {
		return atOnce
	}
	if l.Calendar.Unit != 0 {
		return "-" + l.Calendar.Unit.String()
	}
	p := &periods[uint64(l.Period)*0x9e3779b97f4a7c15>>56] // Fibonacci hashing: Knuth, TAOCP 6.4
	if s := p.Load(); s != nil && s.period == l.Period {
		return s.text
	}
	_, rest, _ := strings.Cut(l.String(), "/")
	text, _, _ := strings.Cut(rest, ";")
	s := &suffix{l.Period, "-" + text}
	p.Store(s)
	return s.text
}
