package replay

import (
	"context"
	"slices"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/core"
)

// An evenPlayer decides the requests of a player a second time, with the requests of each second spread evenly over it.
// Many logs have whole seconds only. The player then decides all requests of a second at the same instant and denies
// the most; the evenPlayer denies the fewest. For slow rules, it uses the decisions of the player, to save memory.
type evenPlayer struct {
	clockedLimiter
	whole   bool // all times so far are whole seconds
	batch   *batch
	full    []*batch // to be sent together: waking the goroutine for each takes longer
	queued  int      // requests in full
	batches chan []*batch
	free    chan *batch
	done    chan struct{}
	claims  []core.Claim
	denied  int
}

// A batch has the requests of one second and their claims.
type batch struct {
	second   time.Time
	requests []batchedRequest
	asks     []ask
}

type batchedRequest struct {
	asks   int           // the end of its asks in batch.asks
	left   time.Duration // until it ends
	status int
	denied bool
}

// isSlow reports whether the rate of each limit is at most one request in ten seconds. Fractions of a second then make
// no noticeable difference.
func isSlow(limits []core.Limit) bool {
	return !slices.ContainsFunc(limits, func(l core.Limit) bool {
		period := l.Period
		if start, end := l.Calendar.Window(time.Unix(0, 0)); l.Calendar.Unit != 0 {
			period = end.Sub(start)
		}
		return l.Algorithm == core.InFlight || period/10/time.Second < time.Duration(l.Rate)
	})
}

// newEvenPlayer returns an evenPlayer for the rules of a player, and starts its goroutine, which finish ends.
func newEvenPlayer(p *player) (*evenPlayer, error) {
	s := &evenPlayer{
		whole: true, batch: &batch{}, batches: make(chan []*batch, 1), free: make(chan *batch, 64), done: make(chan struct{}),
	}
	rules := make([]core.Rule, len(p.rules))
	for i, t := range p.rules {
		rules[i] = t.rule
	}
	if err := s.open(rules); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.done)
		for full := range s.batches {
			for _, b := range full {
				s.decide(b)
				select {
				case s.free <- b:
				default:
				}
			}
		}
	}()
	return s, nil
}

// add adds the claims of an entry to the batch of its second. The first entry of a second dispatches the batch before.
func (s *evenPlayer) add(e *accesslog.Entry, at time.Time, asks []ask) {
	if s.whole = s.whole && e.Seconds; !s.whole {
		return
	}
	// With a duration, the instant is not a whole second, and requests that started in whole seconds end out of order.
	second := at.Truncate(time.Second)
	if lag := s.batch.second.Sub(second); lag > time.Minute || lag < 0 {
		s.dispatch()
		s.batch.second = second
	}
	b := s.batch
	r := batchedRequest{left: e.End().Sub(at), status: e.Status}
	for i := range asks {
		a := &asks[i]
		if !a.rule.slow {
			b.asks = append(b.asks, *a)
		} else if a.denied && !a.rule.rule.DryRun {
			r.denied = true
		}
	}
	r.asks = len(b.asks)
	b.requests = append(b.requests, r)
}

// together is the fewest requests that are sent at once, except at the end of the log.
const together = 2000

// dispatch queues the batch for the goroutine that decides it, and begins the next.
func (s *evenPlayer) dispatch() {
	if len(s.batch.requests) == 0 {
		return
	}
	s.full, s.queued = append(s.full, s.batch), s.queued+len(s.batch.requests)
	if s.queued >= together {
		s.batches <- s.full
		s.full, s.queued = nil, 0
	}
	select {
	case s.batch = <-s.free:
		s.batch.requests, s.batch.asks = s.batch.requests[:0], s.batch.asks[:0]
	default:
		s.batch = &batch{}
	}
}

func (s *evenPlayer) decide(b *batch) {
	from := 0
	for i, r := range b.requests {
		s.advance(b.second.Add(time.Second * time.Duration(i) / time.Duration(len(b.requests))))
		if r.denied {
			s.denied++
		} else if from < r.asks {
			s.take(b.asks[from:r.asks], r)
		}
		from = r.asks
	}
}

// take decides one request.
func (s *evenPlayer) take(asks []ask, r batchedRequest) {
	s.claims = s.claims[:0]
	for i := range asks {
		a := &asks[i]
		s.claims = append(s.claims, core.Claim{Rule: a.rule.rule.Name, Key: a.key, Cost: a.cost, Hold: a.rule.holds})
	}
	d, err := s.limiter.Take(context.Background(), s.claims...)
	switch {
	case err != nil:
		s.fail(err)
	case d.Allowed:
		s.hold(&d, asks, s.now.Add(r.left), r.status)
	default:
		s.denied++
	}
}

// finish decides the remaining batches and returns how many requests were denied. It reports false if the log has
// fractions of seconds.
func (s *evenPlayer) finish() (denied int, ok bool) {
	if s.whole {
		s.dispatch()
	}
	s.batches <- s.full
	close(s.batches)
	<-s.done
	return s.denied, s.whole
}
