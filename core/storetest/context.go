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
	{"each call returns when its context is done, even if the backend hangs", func(s *suite) {
		if s.hang == nil {
			s.Skip("the harness has no Hang")
		}
		s.take(claim("key", "5/d", 1))
		s.hang(s.T)
		s.wantReturns()
	}},
}

// atMost is how long a call may go on after its context on a real clock: only a fault takes so long.
const atMost = 20 * second

// wantReturns makes each call with a context that is done and with one that will be. In a bubble the call must end with
// its context.
func (s *suite) wantReturns() {
	most := atMost
	if s.bubble {
		most = 0
	}
	c := []core.Claim{claim("key", "5/d", 1)}
	settlements := []core.Settlement{{Rule: "rule", Key: "key", Limits: c[0].Limits, At: s.last, Cost: 1}}
	for name, call := range map[string]func(context.Context){
		"Take":   func(ctx context.Context) { _, _ = s.store.Take(ctx, c, nil) },
		"Settle": func(ctx context.Context) { _ = s.store.Settle(ctx, settlements) },
		"Reset":  func(ctx context.Context) { _ = s.store.Reset(ctx, []core.Pair{{Rule: "rule", Key: "key"}}) },
	} {
		for _, timeout := range []time.Duration{0, 50 * ms} {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			begun, returned := time.Now(), make(chan struct{})
			go func() {
				defer close(returned)
				call(ctx)
			}()
			select {
			case <-returned:
			case <-time.After(timeout + atMost):
			}
			if late := time.Since(begun) - timeout; late > most {
				s.Errorf("%s had not returned %v after its context, whose timeout was %v", name, late, timeout)
			}
			cancel()
		}
	}
}
