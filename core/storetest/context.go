package storetest

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
)

// contextRows check that a store does not make a request wait for longer than the request is ready to.
var contextRows = []row{
	{"each call returns when its context is done", func(s *suite) {
		s.take(claim("key", "5/d", 1))
		s.wantReturns()
	}},
	{"each call returns when its context is done, though what the store waits for hangs", func(s *suite) {
		if s.hang == nil {
			s.Skip("the harness has no Hang")
		}
		s.take(claim("key", "5/d", 1))
		s.hang(s.T)
		s.wantReturns()
	}},
}

// wantReturns makes each call with a context that is done and with one that will be. A stall of the machine is not counted: the row is
// not repeated.
func (s *suite) wantReturns() {
	s.repeatable = false
	c := []core.Claim{claim("key", "5/d", 1)}
	settlements := []core.Settlement{{Rule: "rule", Key: "key", Limits: c[0].Limits, At: s.last, Cost: 1}}
	for name, call := range map[string]func(context.Context){
		"Take":   func(ctx context.Context) { _, _ = s.store.Take(ctx, c, nil) },
		"Settle": func(ctx context.Context) { _ = s.store.Settle(ctx, settlements) },
		"Reset":  func(ctx context.Context) { _ = s.store.Reset(ctx, []core.Pair{{Rule: "rule", Key: "key"}}) },
	} {
		for _, timeout := range []time.Duration{0, 50 * ms} {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			if late, ok := s.lateness(ctx, timeout, call); !ok || late > s.stall {
				s.Errorf("%s returned %v after its context, whose timeout was %v; returned at all: %v", name, late, timeout, ok)
			}
			cancel()
		}
	}
}

// lateness returns by how much call took longer than timeout. It reports false if call has not returned long after that. It
// counts the time in ticks, of which a stall of this process makes one longer.
func (s *suite) lateness(ctx context.Context, timeout time.Duration, call func(context.Context)) (time.Duration, bool) {
	const tick = 10 * ms
	begun, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		call(ctx)
	}()
	for ticks := time.Duration(0); ; ticks++ {
		select {
		case <-done:
			return min(time.Since(begun), (ticks+1)*tick) - timeout, true
		case <-time.After(tick):
			if ticks*tick > timeout+s.stall+10*time.Second {
				return ticks*tick - timeout, false
			}
		}
	}
}
