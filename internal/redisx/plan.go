package redisx

import (
	"encoding/binary"
	"strconv"
)

// prepare sets the plan and the numbers of j, which lua/plan.lua reads. Asks for which peek reports true charge nothing.
func (j *job) prepare(peek func(ask int) bool) {
	op := byte('t')
	if j.isOwed() {
		op = 's'
	}
	var buf [512]byte
	b, claim := append(buf[:0], op), -1
	for _, i := range j.asks {
		a := j.request.asks[i]
		a.peek = a.peek || peek != nil && peek(i)
		b = a.appendWords(b, a.claim != claim, j.indexOf(j.request.keys[a.key]))
		claim = a.claim
	}
	if string(b) != j.plan { // j may start with the plan of an earlier job
		j.plan = string(b)
	}
	j.addSettlements()
	j.addLeases()
}

// appendWords appends what a script reads as a, with the place of its key among its job's keys.
func (a *ask) appendWords(b []byte, begins bool, place int) []byte {
	head, starts := int64(place+1)<<6, []int64(nil)
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
	j.leases = j.leases[:0]
	var b []byte
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
