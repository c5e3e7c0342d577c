package replay

import (
	"context"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/accesslog"
)

// A spreader decides what a player decides once more, but spreads the requests of one second evenly over it. Logs often tell
// whole seconds only; then the truth lies between all requests of a second at once, which refuses most, and this. For rules to
// which a second does not matter it believes the player, which keeps the states of their clients already.
type spreader struct {
	clocked
	whole   bool // all times so far are whole seconds
	batch   *batch
	batches chan *batch
	free    chan *batch
	done    chan struct{}
	claims  []core.Claim
	refused int
}

// A batch is what the requests of one second ask for.
type batch struct {
	second   time.Time
	requests []spreadRequest
	asks     []ask
}

type spreadRequest struct {
	asks    int           // up to here those of the batch are this one's
	left    time.Duration // until it ends
	status  int
	refused bool
}

// isSlow reports whether limits admit at most one request in ten seconds on and on.
func isSlow(limits []core.Limit) bool {
	return !slices.ContainsFunc(limits, func(l core.Limit) bool {
		return l.Algorithm == core.InFlight || l.Period/10/time.Second < time.Duration(l.Rate)
	})
}

// newSpreader returns a spreader for the rules of a player.
func newSpreader(p *player) (*spreader, error) {
	const ahead = 64
	s := &spreader{
		whole: true, batch: &batch{}, batches: make(chan *batch, ahead), free: make(chan *batch, ahead), done: make(chan struct{}),
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
		for b := range s.batches {
			s.decide(b)
			select {
			case s.free <- b:
			default:
			}
		}
	}()
	return s, nil
}

// add notes what an entry asks for and hands on what the second before asked for.
func (s *spreader) add(e *accesslog.Entry, at time.Time, asks []ask) {
	if s.whole = s.whole && e.Seconds; !s.whole {
		return
	}
	if !at.Equal(s.batch.second) {
		s.handOn()
	}
	b := s.batch
	b.second = at
	r := spreadRequest{left: endOf(e).Sub(at), status: e.Status}
	for _, a := range asks {
		if !a.rule.slow {
			b.asks = append(b.asks, a)
		} else if a.refused && !a.rule.rule.DryRun {
			r.refused = true
		}
	}
	r.asks = len(b.asks)
	b.requests = append(b.requests, r)
}

func (s *spreader) handOn() {
	if len(s.batch.requests) == 0 {
		return
	}
	s.batches <- s.batch
	select {
	case s.batch = <-s.free:
		s.batch.requests, s.batch.asks = s.batch.requests[:0], s.batch.asks[:0]
	default:
		s.batch = &batch{}
	}
}

func (s *spreader) decide(b *batch) {
	from := 0
	for i, r := range b.requests {
		s.advance(b.second.Add(time.Second * time.Duration(i) / time.Duration(len(b.requests))))
		if r.refused {
			s.refused++
		} else if from < r.asks {
			s.take(b.asks[from:r.asks], r)
		}
		from = r.asks
	}
}

// take decides a request.
func (s *spreader) take(asks []ask, r spreadRequest) {
	s.claims = s.claims[:0]
	for _, a := range asks {
		s.claims = append(s.claims, core.Claim{Rule: a.rule.rule.Name, Key: a.key, Cost: a.cost, Hold: a.rule.holds})
	}
	d, err := s.limiter.Take(context.Background(), s.claims...)
	switch {
	case err != nil:
		s.fail(err)
	case d.Allowed:
		s.hold(d, asks, s.now.Add(r.left), r.status)
	default:
		s.refused++
	}
}

// finish returns how many requests were refused, and whether that is worth saying.
func (s *spreader) finish() (refused int, ok bool) {
	if s.whole {
		s.handOn()
	}
	close(s.batches)
	<-s.done
	return s.refused, s.whole
}
