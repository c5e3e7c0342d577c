package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A Step is one call of a timeline.
type Step struct {
	After  time.Duration // since the step before; if it is negative, the clock goes back
	Until  string        // retry, refill or reset: wait as long as a result of the last take says, plus After; "" is After alone
	Result int           // which result says so

	Verb   string // take, settle, renew, ban, reset, grant or lend
	Claims []core.Claim
	Pair   core.Pair     // to ban or to reset
	Ban    time.Duration // of the pair
	Of     int           // the step whose take or loan is settled or renewed, counted from 0
	Finals []int         // the final costs of its claims; the last one also counts for further claims; none: 0
	Grant  int           // requests for the claim
	Want   int64         // requests to lend for the claim

	id int // its number in the whole timeline
}

// Wait returns how long to wait before s, after the results of the last take.
func (s Step) Wait(last []core.Result) time.Duration {
	if s.Until == "" || len(last) == 0 {
		return s.After
	}
	r := last[s.Result%len(last)]
	wait := map[string]time.Duration{"retry": r.RetryAfter, "refill": r.RefillAfter, "reset": r.ResetAfter}[s.Until]
	if wait > longest {
		return 0
	}
	return max(0, wait+s.After)
}

func (s Step) String() string {
	var b strings.Builder
	switch {
	case s.Until != "":
		fmt.Fprintf(&b, "(%s%+d) ", s.Until, s.After)
	case s.After != 0:
		fmt.Fprintf(&b, "(%+v) ", s.After)
	}
	b.WriteString(s.Verb)
	switch s.Verb {
	case "settle":
		fmt.Fprintf(&b, " %d at %v", s.Of, s.Finals)
	case "renew":
		fmt.Fprintf(&b, " %d", s.Of)
	case "ban":
		fmt.Fprintf(&b, " %s/%s for %v", s.Pair.Rule, s.Pair.Key, s.Ban)
	case "reset":
		fmt.Fprintf(&b, " %s/%s", s.Pair.Rule, s.Pair.Key)
	case "grant":
		fmt.Fprintf(&b, " %d to", s.Grant)
	case "lend":
		fmt.Fprintf(&b, " %d to", s.Want)
	}
	for _, c := range s.Claims {
		fmt.Fprintf(&b, " {%s}", describe(c))
	}
	return b.String()
}

func describe(c core.Claim) string {
	text := fmt.Sprintf("%s/%s %v", c.Rule, c.Key, c.Limits)
	if c.Cost != 1 {
		text += fmt.Sprintf(" cost %d", c.Cost)
	}
	if c.Peek {
		text += " peek"
	}
	if c.DryRun {
		text += " dry"
	}
	if c.Hold {
		text += " hold"
	}
	if c.MaxWait > 0 {
		text += " wait " + c.MaxWait.String()
	}
	return text
}
