package redisx

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// prepare sets what the script reads of j, and its load. If peek is set, j charges nothing.
func (j *job) prepare(peek bool) {
	op := byte('t')
	switch {
	case j.isOwed():
		op = 's'
	case peek:
		op = 'p'
	}
	r := j.request
	var planBuf, wordBuf [512]byte
	plan, words := append(planBuf[:0], op), wordBuf[:0]
	j.load, j.claims = 0, j.claims[:0]
	for n, i := range j.asks {
		a := &r.asks[i]
		begins := n == 0 || r.asks[j.asks[n-1]].claim != a.claim
		plan = a.appendPlan(plan, begins)
		if begins {
			words = appendWords(words, a.cost, a.maxWait)
			if len(r.settlements)+len(r.leases) > 0 {
				j.claims = append(j.claims, a.claim)
			}
		}
		j.load += a.load()
	}
	words = j.appendLeases(j.appendSettlements(words))
	if string(plan) != j.plan { // j may start with the plan and the words of an earlier job
		j.plan = string(plan)
	}
	if string(words) != j.words {
		j.words = string(words)
	}
}

// appendPlan appends what a plan says of a: see lua/plan.lua. begins says whether a is the first ask of its claim.
func (a *ask) appendPlan(b []byte, begins bool) []byte {
	head, starts := int64(a.place+1)<<5, []int64(nil)
	unit, ban := a.Unit+a.Width, a.Ban
	if a.turn != nil {
		starts = a.turn.starts
		unit, ban = int64(len(starts)), a.turn.minute
	}
	for i, flag := range [...]bool{begins, a.peek, a.dryRun, a.hold, a.leased} {
		if flag {
			head |= 1 << i
		}
	}
	for _, n := range [...]int64{head, int64(a.Kind), a.Rate, a.Capacity, unit, ban} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	for _, n := range starts {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return b
}

// appendWords appends numbers as words: see lua/word.lua.
func appendWords(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// appendSettlements appends the words of the claims that j settles: see lua/settle.lua.
func (j *job) appendSettlements(b []byte) []byte {
	if j.isOwed() {
		j.quiet = j.request.asks[j.asks[0]].cost == 0
		for _, claim := range j.claims {
			b = j.request.settlements[claim].appendWords(b)
		}
	}
	return b
}

func (s *settlement) appendWords(b []byte) []byte {
	flags := int64(0)
	if s.hold {
		flags |= 1
	}
	if s.renew {
		flags |= 2
	}
	if s.grant {
		flags |= 4
	}
	if s.waits {
		flags = 8
	}
	return appendWords(b, s.at, s.cost, s.final, s.ban, flags)
}

// appendLeases appends the words of the leased claims of j: see lua/take.lua.
func (j *job) appendLeases(b []byte) []byte {
	j.leases = j.leases[:0]
	for n := range j.request.leases {
		if l := &j.request.leases[n]; slices.Contains(j.claims, l.claim) {
			j.leases = append(j.leases, n)
			b = appendWords(b, l.want, l.unused[0].At, l.unused[0].Count, l.unused[1].At, l.unused[1].Count)
		}
	}
	return b
}

// The load of an ask on a server: of a plain request; of a peek, a dry run, a hold and a sliding limit; and, on top, of
// each so many entries and blocks of a sliding limit that a decision may have to look at, because they have ended since
// the last one. See maxLoad.
const (
	plainLoad      = 1
	otherLoad      = 4
	entriesPerLoad = 8
	blocksPerLoad  = 16

	maxEntries = 64 // of a block: see lua/sliding.lua
)

// load returns an upper bound of the server's work for a.
func (a *ask) load() int {
	entries := int64(0)
	switch a.Algorithm {
	case algorithm.SlidingWindow:
		entries = algorithm.CeilDiv(a.Micros, a.Width)
	case algorithm.SlidingLog:
		entries = a.Rate
	case algorithm.InFlight:
		return plainLoad
	default:
		if !a.peek && !a.dryRun && !a.hold {
			return plainLoad
		}
	}
	return otherLoad + int(min(entries, maxEntries)/entriesPerLoad+entries/maxEntries/blocksPerLoad)
}
