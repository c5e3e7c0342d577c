package replay

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxKeys is how many keys the store of a replay holds.
const maxKeys = 50_000_000

// renewal is how often a limiter renews the holds of a long request.
const renewal = 20 * time.Second

var errNoResponse = errors.New("the log has no status")

// A clockedLimiter is a limiter with a clock that the replay sets, and the requests in flight that hold a cost.
type clockedLimiter struct {
	limiter *core.Limiter // nil if there are no rules
	now     time.Time
	ends    endQueue
	errs    int
	lastErr error
}

func (k *clockedLimiter) open(rules []core.Rule) (err error) {
	if len(rules) > 0 {
		store := &core.MemoryStore{MaxKeys: maxKeys, Now: func() time.Time { return k.now }}
		quiet := core.WithLogger(slog.New(slog.DiscardHandler)) // the report has the last error
		k.limiter, err = core.New(rules, core.WithStore(store), quiet)
	}
	return err
}

func (k *clockedLimiter) fail(err error) {
	if err != nil {
		k.errs++
		k.lastErr = err
	}
}

// A heldRequest is a request in flight that holds a cost.
type heldRequest struct {
	at       time.Time // instant of the next renewal or of the settlement
	end      time.Time
	decision core.Decision
	costs    []cost
}

// A cost is the final cost of a request for one rule.
type cost struct {
	rule string
	n    int
}

// hold schedules the settlement of an admitted request for its end. It settles a request that is decided at its end at
// once.
func (k *clockedLimiter) hold(d *core.Decision, asks []ask, end time.Time, status int) {
	var costs []cost
	for i := range asks {
		a := &asks[i]
		if !a.rule.holds {
			continue
		}
		c := cost{a.rule.rule.Name, a.cost}
		if final := a.rule.rule.CostAfter; final != nil {
			c.n = final(nil, outcomeOf(a.cost, status))
		}
		costs = append(costs, c)
	}
	if len(costs) == 0 {
		return
	}
	h := heldRequest{end: end, decision: *d, costs: costs}
	if !end.After(k.now) {
		k.settle(h)
		return
	}
	h.at = earlier(end, k.now.Add(renewal))
	heap.Push(&k.ends, h)
}

// outcomeOf returns how a request ended. Without a status, it had no response, as if the client had disconnected.
func outcomeOf(cost, status int) core.Outcome {
	o := core.Outcome{Cost: cost, Status: status}
	if status == 0 {
		o.Err = errNoResponse
	}
	return o
}

func (k *clockedLimiter) settle(h heldRequest) {
	for _, c := range h.costs {
		k.fail(k.limiter.Settle(context.Background(), h.decision, c.rule, c.n))
	}
}

// advance moves the clock to an instant, and makes the renewals and settlements that are due until then. The clock does
// not go back.
func (k *clockedLimiter) advance(at time.Time) {
	for len(k.ends) > 0 && !k.ends[0].at.After(at) {
		h := heap.Pop(&k.ends).(heldRequest)
		k.now = later(k.now, h.at)
		if !h.at.Before(h.end) {
			k.settle(h)
			continue
		}
		k.fail(k.limiter.Renew(context.Background(), h.decision))
		h.at = earlier(h.end, h.at.Add(renewal))
		heap.Push(&k.ends, h)
	}
	k.now = later(k.now, at)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func hasInFlight(limits []core.Limit) bool {
	return slices.ContainsFunc(limits, func(l core.Limit) bool { return l.Algorithm == core.InFlight })
}

// endQueue is a heap of held requests.
type endQueue []heldRequest

func (q endQueue) Len() int           { return len(q) }
func (q endQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q endQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q *endQueue) Push(x any)        { *q = append(*q, x.(heldRequest)) }
func (q *endQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = heldRequest{}
	*q = old[:len(old)-1]
	return last
}
