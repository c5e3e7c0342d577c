package redisx

import (
	"slices"
	"strconv"

	"github.com/spillgate/spillgate/core"
)

// A part is some meters of a request that one run of a script decides.
type part struct {
	request *request
	keys    []string
	meters  []int  // places in request.meters, ascending
	plan    string // what is asked of the keys: see lua/limit.lua
	lane    string // what it has in common with parts that may share the run

	at     int64   // the server's clock
	reply  []int64 // see lua/take.lua
	usages []usage // by meter
	err    error
}

// A spread says which keys may share a run of a script.
type spread uint32

const (
	together spread = iota // all: one server, or one of a Sentinel
	bySlot                 // those in a slot: a Redis Cluster
	byTag                  // those of an identity: a Ring, whose shards nobody knows
	byKey                  // each on its own: a slot that migrates
)

// split divides r into parts.
func (s *Store) split(r *request, how spread) []part {
	r.parts = r.parts[:0]
	if how == together {
		r.parts = append(r.parts, part{request: r, keys: r.keys, meters: upTo(len(r.meters))})
	} else {
		r.group(func(key string) string { return how.nameOf(key, &s.layout) })
	}
	r.usages = slices.Grow(r.usages[:0], len(r.meters))[:len(r.meters)]
	room := r.usages
	for i := range r.parts {
		p := &r.parts[i]
		p.plan = s.planOf(p)
		p.usages, room = room[:0:len(p.meters)], room[len(p.meters):]
	}
	return r.parts
}

// group puts the meters whose keys have the same name into a part.
func (r *request) group(nameOf func(key string) string) {
	for i := range r.meters {
		key := r.keys[r.meters[i].key]
		name := nameOf(key)
		n := slices.IndexFunc(r.parts, func(p part) bool { return p.lane == name })
		if n < 0 {
			n = len(r.parts)
			r.parts = append(r.parts, part{request: r, lane: name})
		}
		r.parts[n].add(i, key)
	}
}

// upTo returns 0 to n-1.
func upTo(n int) []int {
	if n <= len(places) {
		return places[:n:n]
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

var places = [...]int{0, 1, 2, 3, 4, 5, 6, 7}

// nameOf returns what keys that may share a run have in common.
func (s spread) nameOf(key string, l *layout) string {
	switch s {
	case bySlot:
		return strconv.Itoa(slotOf(l.tagOf(key)))
	case byTag:
		return l.tagOf(key)
	}
	return key
}

func (p *part) add(meter int, key string) {
	p.meters = append(p.meters, meter)
	if p.indexOf(key) < 0 {
		p.keys = append(p.keys, key)
	}
}

func (p *part) indexOf(key string) int {
	for i := range p.keys {
		if p.keys[i] == key {
			return i
		}
	}
	return -1
}

// appendPlan appends the plan of p. Meters for which skip reports true become peeks.
func (p *part) appendPlan(b []byte, skip func(meter int) bool) []byte {
	claim := -1
	for _, i := range p.meters {
		m := p.request.meters[i]
		m.peek = m.peek || skip != nil && skip(i)
		b = m.appendWords(b, m.claim != claim, p.indexOf(p.request.keys[m.key]))
		claim = m.claim
	}
	return b
}

// planOf returns the plan of p: the same text as last time if it is the same, as it mostly is.
func (s *Store) planOf(p *part) string {
	var buf [512]byte
	text := p.appendPlan(buf[:0], nil)
	if last := s.plan.Load(); last != nil && *last == string(text) {
		return *last
	}
	plan := string(text)
	s.plan.Store(&plan)
	return plan
}

// load is how much work p is for the server: 1 for a token bucket, more for what has to be read and written piece by piece.
func (p *part) load() (n int) {
	for _, i := range p.meters {
		if p.request.meters[i].algorithm == core.TokenBucket {
			n++
		} else {
			n += 8
		}
	}
	return n
}

// retry returns how long the n-th meter of p has to wait, in microseconds: 0 if it admits its cost, -1 if it never does.
func (p *part) retry(n int) int64 { return p.usages[n].retry }

// admitted reports whether p by itself was charged.
func (p *part) admitted() bool {
	if p.err != nil {
		return false
	}
	for n, i := range p.meters {
		if !p.request.meters[i].dryRun && p.retry(n) != 0 {
			return false
		}
	}
	return true
}

// fits reports whether all limits in p of a claim admit its cost.
func (p *part) fits(claim int) bool {
	for n, i := range p.meters {
		if p.request.meters[i].claim == claim && p.retry(n) != 0 {
			return false
		}
	}
	return true
}
