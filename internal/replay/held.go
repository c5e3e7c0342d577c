package replay

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/accesslog"
)

// renewal is how often a limiter renews what a long request holds.
const renewal = 20 * time.Second

// A held is a request that is under way and holds something, which is renewed or settled at an instant.
type held struct {
	at, end  time.Time
	decision core.Decision
	costs    []cost
}

// A cost is what a request costs a rule after all.
type cost struct {
	rule string
	n    int
}

// hold keeps what an admitted request holds until its end: at once, if the request is decided at its end.
func (p *player) hold(d core.Decision, e *accesslog.Entry) {
	h := held{end: endOf(e), decision: d}
	for i := range d.Results {
		t := p.byName[d.Results[i].Rule]
		again := slices.ContainsFunc(h.costs, func(c cost) bool { return c.rule == t.rule.Name })
		if again || t.rule.Final == nil && !hasInFlight(t.rule.Limits) {
			continue
		}
		c := cost{t.rule.Name, 1}
		if t.rule.Cost != nil {
			c.n = t.rule.Cost(p.request)
		}
		if t.rule.Final != nil {
			c.n = t.rule.Final(p.request, core.Outcome{Cost: c.n, Status: e.Status})
		}
		h.costs = append(h.costs, c)
	}
	switch {
	case len(h.costs) == 0:
	case h.end.After(p.now):
		h.at = earlier(h.end, p.now.Add(renewal))
		heap.Push(&p.ends, h)
	default:
		p.settle(h)
	}
}

func (p *player) settle(h held) {
	for _, c := range h.costs {
		p.fail(p.limiter.Settle(context.Background(), h.decision, c.rule, c.n))
	}
}

// advance lets time pass, and requests end meanwhile. Time does not go back.
func (p *player) advance(at time.Time) {
	for len(p.ends) > 0 && !p.ends[0].at.After(at) {
		h := heap.Pop(&p.ends).(held)
		p.now = later(p.now, h.at)
		if !h.at.Before(h.end) {
			p.settle(h)
			continue
		}
		p.fail(p.limiter.Renew(context.Background(), h.decision))
		h.at = earlier(h.end, h.at.Add(renewal))
		heap.Push(&p.ends, h)
	}
	p.now = later(p.now, at)
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
type endQueue []held

func (q endQueue) Len() int           { return len(q) }
func (q endQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q endQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q *endQueue) Push(x any)        { *q = append(*q, x.(held)) }
func (q *endQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = held{}
	*q = old[:len(old)-1]
	return last
}
