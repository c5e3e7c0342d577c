package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// A pairState is what a pair remembers whatever its limits are, as it is while a request is decided.
type pairState struct {
	holds  *record // nil if there is none
	ban    *record // likewise
	cost   int64   // held
	count  int64   // of requests that hold it
	banned int64   // until this instant
}

// find sets the records: those of the pair or, if it has no record of its own at all, those which it shares. The shard has a
// record.
func (p *pairState) find(s *shard, pair Pair) {
	id := pair.id
	if !s.has(id) {
		id = pair.shared
	}
	for i := s.first(id); s.records[i].id == id && s.records[i].isPairState(); i++ {
		p.note(&s.records[i])
	}
}

// note takes note of a record that is not of a limit.
func (p *pairState) note(r *record) {
	if r.is(algorithm.HoldKind) {
		p.holds = r
	} else {
		p.ban = r
	}
}

// load sets what is held at now, and until when the pair is banned.
func (p *pairState) load(s *shard, now int64) {
	if p.ban != nil {
		p.banned = p.ban.at
	}
	if p.holds != nil && p.holds.hasHolds() {
		h := s.holds.at(p.holds.extra)
		h.Rewind(now)
		p.cost, p.count = h.Sum(now)
	}
}

// hold adds the hold of one request.
func (p *pairState) hold(s *shard, now, cost int64) {
	if p.holds.extra == 0 {
		p.holds.extra = s.holds.add(algorithm.Holds{})
	}
	h := s.holds.at(p.holds.extra)
	h.Add(now, cost, 1)
	p.holds.setHolds(h, now)
	s.endsAt(p.holds.at)
}

// release takes the hold that a settles. It reports whether a is late, and the instant at which the hold has ended and was charged.
func (a *Ask) release(now int64) (ended int64, late bool) {
	if a.At == NoInstant {
		return 0, false
	}
	if p := &a.pair; p.holds != nil && p.holds.hasHolds() {
		if _, ok := a.shard.holds.at(p.holds.extra).Release(a.At, a.Claimed); ok {
			a.shard.held(p.holds, now)
			return 0, false
		}
	}
	ended = algorithm.EndOf(a.At)
	return ended, ended <= now
}

// renew makes what a claim held at an earlier instant a hold of now, unless it has ended.
func (a *Ask) renew(now int64) {
	p := &a.pair
	if p.holds == nil || !p.holds.hasHolds() {
		return
	}
	if released, ok := a.shard.holds.at(p.holds.extra).Release(a.At, a.Claimed); ok {
		p.hold(a.shard, now, released)
		a.At, a.Renewed = now, true
	}
}

// ban has nothing of a pair fit for a while. A longer ban stays. In a full store others may share the ban.
func (d *decision) ban(s *Store, a *Ask) {
	d.placeOne(s, a, algorithm.BanKind)
	a.pair.find(a.shard, a.Pair)
	r := a.pair.ban
	r.level, r.at = 1, max(r.at, min(d.now+a.Ban, algorithm.MaxExact))
	a.shard.endsAt(r.at)
}
