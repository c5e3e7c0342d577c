// Package memory keeps the states of limits in this process. It implements core.MemoryStore.
//
//	s := memory.New(1_000_000, nil)
//	ops := []memory.Op{{Pair: memory.RuleOf("api").Pair("user:42"), Limits: limits, Cost: 1}}
//	at, _ := s.Do(ops, answers) // answers[0].Retry is 0 if the request is admitted at that instant
//
// A pair is a rule and a key. It has a record for each state of its limits, and one for its cells: holds, grants, bans and
// resets. What an algorithm computes, such as the refund of a fixed window, is in internal/algorithm: this package
// finds, locks and stores the records.
//
// Reading order: store.go (ops), pair.go (all ops of a call together: lock, find, decide, charge, report), ops.go (what
// an op does that is not decided: refunds, settlements, bans, grants, resets). Below them: place.go and shard.go (room for
// a new record, holds that end, and which records a full store drops), table.go (where records are), clock.go.
package memory
