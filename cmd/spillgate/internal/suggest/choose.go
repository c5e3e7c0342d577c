package suggest

import (
	"cmp"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// roundUp rounds n up to a number of at most two digits and zeros, which is easy to read in a configuration.
func roundUp(n int) int {
	unit := 1
	for n > 99*unit {
		unit *= 10
	}
	n = (n + unit - 1) / unit
	for _, step := range []struct{ from, by int }{{50, 10}, {20, 5}, {10, 2}} {
		if n >= step.from {
			n = (n + step.by - 1) / step.by * step.by
			break
		}
	}
	return n * unit
}

// refill returns how long an empty bucket takes to refill.
func refill(l core.Limit, burst int) time.Duration {
	return time.Duration(burst) * l.Period / time.Duration(l.Rate)
}

// suits reports whether a log of this span is long enough to judge a limit: whether a client could use it up several
// times. Otherwise the burst that a client needs would only measure the span. A limit that refills within a second
// suits any log.
func suits(l core.Limit, burst int, span time.Duration) bool {
	const times = 4
	return burst <= maxBurst && refill(l, burst) <= max(span/times, time.Second)
}

// choose returns the index of the rate to suggest: the suitable rate that admits least within a time. If some clients
// stand out, choose ignores the rates at which they exceed the others by less than half as much as at the best rate,
// because at these rates other clients may need more than they do.
func choose(all []Rate, within time.Duration) int {
	best, suitable, excess := -1, slices.ContainsFunc(all, func(r Rate) bool { return r.Suitable }), 0
	for _, r := range all {
		if r.Suitable == suitable {
			excess = max(excess, r.excess())
		}
	}
	for i, r := range all {
		switch {
		case r.Suitable != suitable, 2*r.excess() < excess:
		case best < 0, cost(r, within, suitable) < cost(all[best], within, suitable):
			best = i
		}
	}
	return best
}

// excess returns by how many requests the clients beyond the gap exceed the others.
func (r *Rate) excess() int {
	if r.gap.Clients == 0 {
		return 0
	}
	return r.peaks.excess(r.gap.Below)
}

// cost is how many requests a limit admits within a time or, if no rate is suitable, how long the limit takes to
// refill.
func cost(r Rate, within time.Duration, suitable bool) float64 {
	if !suitable {
		return refill(r.limit, r.Burst).Seconds()
	}
	return float64(r.Burst) + float64(r.limit.Rate)*within.Seconds()/r.limit.Period.Seconds()
}

// choice returns the limit of a rate and a burst, with the clients that need the largest bursts.
func (l *learner) choice(r *Rate, burst int) *Choice {
	ch := &Choice{Limit: limitText(r.limit, burst), Rate: r.Rate, Burst: burst, Hit: r.HitBy(burst)}
	if r.gap.Clients > 0 {
		ch.Gap = &r.gap
	}
	q, even := newQueue(r.limit), newPeaks(1)[0]
	for i := range l.clients {
		c := &l.clients[i]
		for at := range c.instants {
			q.add(at)
		}
		if ch.Most = append(ch.Most, Client{c.key, c.requests, q.burst()}); len(ch.Most) == 100*shown {
			ch.Most = most(ch.Most)
		}
		q.reset()
		for at := range c.evenInstants {
			q.add(at)
		}
		even.add(q.burst())
		q.reset()
	}
	ch.Most = most(ch.Most)
	if l.whole {
		ch.EvenBurst, _ = l.report.learn(even)
		ch.EvenBurst = min(burst, ch.EvenBurst)
	}
	return ch
}

// shown is the largest number of clients in a choice.
const shown = 20

// most returns the clients that need the largest bursts, in order.
func most(clients []Client) []Client {
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(b.Burst-a.Burst, b.Requests-a.Requests, cmp.Compare(a.Key, b.Key))
	})
	return clients[:min(len(clients), shown)]
}

// wholeSecond returns the second of an instant, which a duration may have moved.
func wholeSecond(micros int64) int64 { return micros - micros%1_000_000 }

// evenInstants yields the instants of the requests of c, with the requests of each second spread evenly over it.
func (c *client) evenInstants(yield func(int64) bool) {
	second, n := wholeSecond(c.first), int64(0)
	flush := func() bool {
		for i := range n {
			if !yield(second + i*1_000_000/n) {
				return false
			}
		}
		return true
	}
	for at := range c.instants {
		if at = wholeSecond(at); at != second {
			if !flush() {
				return
			}
			second, n = at, 0
		}
		n++
	}
	flush()
}

// Bursts returns the bursts for the columns of a table: the bursts that the rates need, and some around the suggested
// burst.
func Bursts(rep *Report) (bursts []int) {
	for _, r := range rep.Rates {
		if r.Suitable {
			bursts = append(bursts, r.Burst)
		}
	}
	if c := rep.Chosen; c != nil {
		for _, quarters := range []int{1, 2, 3, 4, 6, 8} {
			bursts = append(bursts, roundUp((c.Burst*quarters+3)/4))
		}
	}
	slices.Sort(bursts)
	return slices.Compact(bursts)
}
