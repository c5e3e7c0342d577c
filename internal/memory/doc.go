// Package memory keeps the states of limits in this process. It implements core.MemoryStore.
//
//	s := memory.New(1_000_000, nil)
//	claims := []memory.Claim{{Pair: memory.RuleOf("api").Pair("user:42"), Limits: limits, Cost: 1}}
//	at := s.Take(claims, answers) // answers[0].Retry is 0 if the request is admitted at that instant
//
// A pair is a rule and a key. What an algorithm computes, such as the refund of a fixed window, is in internal/algorithm: this
// package finds, locks and stores the state.
//
// Reading order: store.go (locks), decision.go (one or many claims, by one loop: find, load, evaluate, place, charge,
// report), settle.go (refunds, further charges, holds, bans), holds.go (holds and their ends). Below them: record.go,
// table.go and slab.go (where states are stored), place.go and shard.go (room for a new state, and which states a full
// store drops), clock.go.
package memory
