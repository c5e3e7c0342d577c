package linear

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
)

// An op is one call of a store.
type op struct {
	verb   string       // take, settle, reset
	claims []core.Claim // of a settle: with the instant of the take, or of the last renewal
}

// String returns o without the name of its history: two with the same text do the same.
func (o *op) String() string {
	text := o.verb
	for _, c := range o.claims {
		text += fmt.Sprintf(" %d:%d", keyNumber(c), max(c.Cost, 1))
		switch {
		case o.verb != "settle":
		case c.Ban > 0:
			text += "!"
		case c.Renew:
			text += "+"
		default:
			text += fmt.Sprintf("=%d", c.Final)
		}
		for _, f := range []struct {
			set  bool
			mark string
		}{{c.Hold, "h"}, {c.Peek, "?"}, {c.DryRun, "~"}} {
			if f.set {
				text += f.mark
			}
		}
	}
	return text
}

// keyNumber returns the number of a key among those of its history.
func keyNumber(c core.Claim) int { return int(c.Key[len(c.Key)-1] - '0') }

// An outcome is what the caller learned.
type outcome struct {
	results []core.Result
	lost    bool // there was no reply: the call may have taken effect, or may still do so
}

func (o outcome) String() string {
	if o.lost {
		return "lost"
	}
	text := ""
	for _, r := range o.results {
		text += fmt.Sprintf(" %v %d", r.Allowed, r.Remaining)
	}
	if len(o.results) > 0 {
		text += fmt.Sprintf(" at %dµs", o.at().UnixMicro()%1_000_000)
	}
	return text
}

// at returns when o was decided.
func (o *outcome) at() time.Time { return o.results[0].At }

// lost returns how many calls of a history have no known outcome.
func lost(history []porcupine.Operation) (n int) {
	for _, o := range history {
		if o.Output.(outcome).lost {
			n++
		}
	}
	return n
}
