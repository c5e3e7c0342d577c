// Package memory keeps the states of limits in this process. It is what core.MemoryStore is made of.
//
//	s := memory.New(1_000_000, nil)
//	claims := []memory.Claim{{Pair: s.Pair("api", "user:42"), Limits: limits, Cost: 1}}
//	at := s.Take(claims, answers) // answers[0].Retry is 0 if the request is admitted at that instant
//
// A pair is a rule and a key. What an algorithm computes, such as the refund of a fixed window, is in internal/algorithm: this
// package finds, locks and stores the state.
//
// Reading order: store.go (locks), decision.go (one or many claims, by one loop: find, load, evaluate, place, charge,
// report), settle.go (refunds, further charges, holds, bans), holds.go (what is held, and what becomes of it). Below
// them: record.go, table.go and slab.go (states and where they are), place.go and shard.go (a place for a new state,
// and what a full store drops for it), clock.go.
package memory
