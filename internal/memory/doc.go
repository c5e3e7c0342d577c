// Package memory keeps the states of limits in this process. It is what core.MemoryStore is made of.
//
//	s := memory.New(1_000_000, nil)
//	asks := []memory.Ask{{Pair: s.Pair("api", "user:42"), Limit: &limit, Cost: 1}}
//	at := s.Take(asks) // asks[0].Retry is 0 if the request is admitted at that instant
//
// A claim of core is one ask for each of its limits. A pair is a rule and a key. What an algorithm computes, such as the refund
// of a fixed window, stands in internal/algorithm: this package finds, locks and stores the state.
//
// Reading order: store.go (locks), ask.go and evaluate.go (one limit), take.go (all asks of a request), plain.go (the fast path:
// requests of token buckets alone), settle.go (refunds, further charges, holds, bans). Below them: record.go, pairstate.go, table.go
// and slab.go (states and where they are), place.go, room.go and shard.go (a place for a new state, and what a full store drops for
// it), resets.go, clock.go.
package memory
