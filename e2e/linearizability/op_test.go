package linearizability

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/spillgate/spillgate/core"
)

// An op is one call of a store.
type op struct {
	verb        string // take, settle, reset
	claims      []core.Claim
	settlements []core.Settlement
	pair        core.Pair
}

func (o *op) keys() (keys []string) {
	for _, c := range o.claims {
		keys = append(keys, c.Key)
	}
	for _, s := range o.settlements {
		keys = append(keys, s.Key)
	}
	if o.pair.Key != "" {
		keys = append(keys, o.pair.Key)
	}
	return keys
}

// String returns o without the name of its history: two operations with the same text do the same.
func (o *op) String() string {
	text := o.verb
	for _, c := range o.claims {
		text += fmt.Sprintf(" %d:%d", keyNumber(c.Key), max(c.Cost, 1)) + marks(c.Hold, c.Peek, c.DryRun)
	}
	for _, s := range o.settlements {
		text += fmt.Sprintf(" %d:%d", keyNumber(s.Key), max(s.Cost, 1))
		switch {
		case s.Ban > 0:
			text += "!"
		case s.Renew:
			text += "+"
		default:
			text += fmt.Sprintf("=%d", s.Final)
		}
		text += marks(s.Held, false, s.DryRun)
	}
	if o.pair.Key != "" {
		text += fmt.Sprintf(" %d", keyNumber(o.pair.Key))
	}
	return text
}

func marks(held, peek, dryRun bool) (text string) {
	for i, set := range []bool{held, peek, dryRun} {
		if set {
			text += "h?~"[i : i+1]
		}
	}
	return text
}

func keyNumber(key string) int { return int(key[len(key)-1] - '0') }

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

// lost returns how many calls of a history have an unknown outcome.
func lost(history []porcupine.Operation) (n int) {
	for _, o := range history {
		if o.Output.(outcome).lost {
			n++
		}
	}
	return n
}
