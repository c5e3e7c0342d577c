package redisx

import (
	"encoding/binary"
	"strconv"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// prepare sets what the script reads of j, and its load. If peek is set, j charges nothing.
func (j *job) prepare(peek bool) {
	op := byte('t')
	if j.isOwed() {
		op = 's'
	}
	var buf [512]byte
	b, claim := append(buf[:0], op), -1
	j.load = 0
	for _, i := range j.asks {
		a := j.request.asks[i]
		a.peek = a.peek || peek
		b = a.appendWords(b, a.claim != claim)
		claim = a.claim
		j.load += j.request.asks[i].load()
	}
	if string(b) != j.plan { // j may start with the plan of an earlier job
		j.plan = string(b)
	}
	j.addSettlements()
	j.addLeases()
}

// appendWords appends what a script reads as a. begins says whether a is the first ask of its claim.
func (a *ask) appendWords(b []byte, begins bool) []byte {
	head, starts := int64(a.place+1)<<6, []int64(nil)
	kind, unit, ban := int64(a.Kind), a.Unit+a.Width, a.Ban+a.maxWait
	if a.turn != nil {
		starts = a.turn.starts
		unit, ban = int64(len(starts)), a.turn.minute
	}
	for i, flag := range [...]bool{begins, a.peek, a.dryRun, a.hold, a.leased, a.maxWait > 0} {
		if flag {
			head |= 1 << i
		}
	}
	for _, n := range [...]int64{head, kind, a.cost, a.asked, a.Rate, a.Capacity, unit, ban} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	for _, n := range starts {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return b
}

// addSettlements sets claims and numbers of the job of a Settle: see lua/settle.lua.
func (j *job) addSettlements() {
	r := j.request
	if len(r.settlements) == 0 {
		return
	}
	var buf [5 * 8 * 4]byte
	b := buf[:0]
	j.claims = make([]int, 0, len(j.asks))
	j.quiet = r.asks[j.asks[0]].asked == 0
	for _, i := range j.asks {
		claim := r.asks[i].claim
		if n := len(j.claims); n > 0 && j.claims[n-1] == claim {
			continue
		}
		j.claims = append(j.claims, claim)
		b = r.settlements[claim].appendNumbers(b)
	}
	j.numbers = string(b)
}

func (s *settlement) appendNumbers(b []byte) []byte {
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
	for _, n := range [...]int64{s.at, s.cost, s.final, s.ban, flags} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// addLeases sets leases and numbers of the job of a Take.
func (j *job) addLeases() {
	r := j.request
	if len(r.leases) == 0 {
		return
	}
	var buf [5 * 8 * 4]byte
	b := buf[:0]
	j.leases = j.leases[:0]
	for n := range r.leases {
		if l := &r.leases[n]; j.asksFor(l.claim) {
			j.leases = append(j.leases, n)
			b = l.appendNumbers(b)
		}
	}
	j.numbers = string(b)
}

func (l *leased) appendNumbers(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(l.want))
	for _, p := range l.unused {
		b = binary.LittleEndian.AppendUint64(b, uint64(p.At))
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Count))
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
