package suggest

import (
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// maxBurst is the largest burst that is counted.
const maxBurst = 1_000_000

// rates are the rates to try, slowest first.
var rates = roundRates()

func roundRates() (rates []core.Limit) {
	for _, n := range []int{1, 2, 5, 10, 20, 30} {
		rates = append(rates, core.PerHour(n))
	}
	for _, n := range []int{1, 2, 5, 10, 20, 30} {
		rates = append(rates, core.PerMinute(n))
	}
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		rates = append(rates, core.PerSecond(n))
	}
	return rates
}

// rateText returns "5/s".
func rateText(l core.Limit) string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[l.Period]
	return fmt.Sprintf("%d/%s", l.Rate, unit)
}

// limitText returns "5/s;burst=20".
func limitText(l core.Limit, burst int) string {
	return strings.TrimSuffix(fmt.Sprintf("%s;burst=%d", rateText(l), burst), fmt.Sprintf(";burst=%d", l.Rate))
}

// A queue is the bucket of a client, which denies nothing, and its highest level so far.
type queue struct {
	limit  algorithm.Limit
	bucket algorithm.Bucket
	most   int64
}

func newQueue(l core.Limit) queue {
	limit, _ := algorithm.Compile(algorithm.Limit{Rate: int64(l.Rate), Micros: l.Period.Microseconds(), Capacity: maxBurst}) // fits
	return queue{limit: limit}
}

func newQueues() []queue {
	queues := make([]queue, len(rates))
	for i, l := range rates {
		queues[i] = newQueue(l)
	}
	return queues
}

func (q *queue) add(at int64) {
	q.bucket = q.bucket.Drain(&q.limit, q.limit.Rate, at).Charge(&q.limit, 1)
	q.most = max(q.most, q.bucket.Level)
}

// burst returns the burst that q needs to deny nothing.
func (q *queue) burst() int { return int(algorithm.CeilDiv(q.most, q.limit.Period)) }

func (q *queue) reset() { q.bucket, q.most = algorithm.Bucket{}, 0 }

// drain returns the bursts that clients need at each rate: over the whole log, before the instant cut, and from then on.
func (l *learner) drain(cut int64) (whole, first, second []*peaks) {
	whole, first, second = newPeaks(len(rates)), newPeaks(len(rates)), newPeaks(len(rates))
	queues, late := newQueues(), newQueues()
	for i := range l.clients {
		c := &l.clients[i]
		begun := false
		for at := range c.instants {
			if at >= cut && !begun {
				begun = true
				addAll(first, queues)
			}
			for r := range queues {
				queues[r].add(at)
				if begun {
					late[r].add(at)
				}
			}
		}
		if !begun {
			addAll(first, queues)
		}
		addAll(whole, queues)
		addAll(second, late)
		for r := range queues {
			queues[r].reset()
			late[r].reset()
		}
	}
	return whole, first, second
}

// addAll counts a client at each rate, unless it has sent nothing.
func addAll(all []*peaks, queues []queue) {
	for i := range queues {
		if queues[i].most > 0 {
			all[i].add(queues[i].burst())
		}
	}
}
