package redisx

import (
	"testing"

	"github.com/spillgate/spillgate/internal/oracle"
)

// A leaseHolder is a lease as the schedules of package oracle use it: it decides when to ask for a grant.
type leaseHolder struct {
	lease
	length  int64 // nanoseconds
	asked   bool
	last    int64
	waiting bool // for a grant
}

func newLeaseHolder(length int64) oracle.Holder { return &leaseHolder{length: length * 1000} }

func (h *leaseHolder) Ask(now, cost int64, waited bool) oracle.Answer {
	now *= 1000
	again := h.asked && now-h.last < h.length
	h.asked, h.last = true, now
	h.advance(now, h.length)
	if t, ok := h.take(cost); ok {
		a := oracle.Answer{Taken: portionsOf(t)}
		a.Want = h.grant(now, cost)
		return a
	}
	var a oracle.Answer
	if h.isBusy() && !waited {
		a.Want = h.grant(now, cost)
	}
	if a.Wait = h.waiting && !h.late && !waited; a.Wait {
		return a
	}
	h.use(cost)
	h.end()
	a.Back = portionsIn(h.takeUnused())
	if again {
		a.Want += h.grant(now, cost)
	}
	return a
}

// grant returns how much to ask for, or 0 if there is enough or that has to wait.
func (h *leaseHolder) grant(now, cost int64) int64 {
	if h.waiting || h.pause > 0 || !h.isLow(now, h.length) {
		return 0
	}
	h.waiting = true
	return h.want(cost)
}

func (h *leaseHolder) PutBack(now int64, taken []oracle.Portion) {
	h.advance(now*1000, h.length)
	h.putBack(takenOf(taken))
}

func (h *leaseHolder) Granted(now, sent int64, p oracle.Portion) {
	h.waiting = false
	h.advance(now*1000, h.length)
	h.credit(now*1000, p.At, sent*1000+h.length, p.Count)
}

func (h *leaseHolder) Failed(int64) { h.waiting, h.pause = false, pauseSpans }

func (h *leaseHolder) Refund(_, at, cost int64) []oracle.Portion {
	return []oracle.Portion{{At: at - h.length/1000, Count: cost}}
}

func (h *leaseHolder) Ended(now int64) []oracle.Portion {
	h.advance(now*1000, h.length)
	return portionsIn(h.takeUnused())
}

func portionsOf(t taken) (all []oracle.Portion) {
	for i, n := range t.n {
		if n > 0 {
			all = append(all, oracle.Portion{At: t.at[i], Count: int64(n)})
		}
	}
	return all
}

// takenOf returns some portions, which are of two instants at most.
func takenOf(some []oracle.Portion) (t taken) {
	for _, p := range some {
		i := 0
		if t.n[0] > 0 && t.at[0] != p.At {
			i = 1
		}
		t.at[i], t.n[i] = p.At, t.n[i]+uint32(p.Count)
	}
	return t
}

func portionsIn(b backs) (all []oracle.Portion) {
	for _, p := range b {
		if p.n > 0 {
			all = append(all, oracle.Portion{At: p.at, Count: p.n})
		}
	}
	return all
}

// stream is that of the schedules of this package.
const stream = 81

// TestLeaseKeepsItsBounds simulates processes that lease from the model with the leases of this package.
func TestLeaseKeepsItsBounds(t *testing.T) { oracle.CheckLeases(t, stream, newLeaseHolder) }

func FuzzLease(f *testing.F) { oracle.FuzzLeases(f, stream, newLeaseHolder) }
