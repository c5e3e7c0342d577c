// Package memory keeps the states of limits in this process. It is what core.MemoryStore is made of.
//
//	asks := []memory.Ask{{Pair: s.Pair("api", "user:42"), Limit: &limit, Cost: 1}}
//	at := s.Take(asks) // asks[0].Retry is 0 if the request is admitted
//
// Reading order: ask.go (one limit of one claim), take.go (how all asks of a request are decided), known.go (the same for the
// most frequent ones), settle.go; below them record.go, table.go and slab.go (where states are), shard.go and room.go (what is
// dropped when the store is full), clock.go.
package memory
