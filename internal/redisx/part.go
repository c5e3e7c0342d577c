package redisx

import "strconv"

// A part is some meters of a request that one run of a script decides.
type part struct {
	keys   []string
	meters []int // places in request.meters, ascending
	at     int64 // the server's clock
	values []int64
	err    error
}

// valuesPerMeter is how many numbers a script returns for a meter: retry, remaining, refill, reset.
const valuesPerMeter = 4

// A spread says which keys may share a run of a script.
type spread uint32

const (
	together spread = iota // all: one server, or one of a Sentinel
	bySlot                 // those in a slot: a Redis Cluster
	byTag                  // those of an identity: a Ring, whose shards nobody knows
	byKey                  // each on its own: a slot that migrates
)

// split divides r into parts.
func (r *request) split(s spread, l *layout) []part {
	if s == together || len(r.keys) == 1 {
		all := part{keys: r.keys, meters: make([]int, len(r.meters))}
		for i := range r.meters {
			all.meters[i] = i
		}
		return []part{all}
	}
	var parts []part
	found := make(map[string]int)
	for i := range r.meters {
		key := r.keys[r.meters[i].key]
		name := s.nameOf(key, l)
		n, ok := found[name]
		if !ok {
			n = len(parts)
			found[name] = n
			parts = append(parts, part{})
		}
		parts[n].add(i, key)
	}
	return parts
}

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

// texts appends the texts of the meters of p to args. Those for which skip reports true become peeks.
func (p *part) texts(r *request, args []string, skip func(meter int) bool) []string {
	claim := -1
	for n, i := range p.meters {
		m := r.meters[i]
		begins := byte('0')
		if n == 0 {
			begins = '2'
		} else if m.claim != claim {
			begins = '1'
		}
		claim = m.claim
		m.peek = m.peek || skip != nil && skip(i)
		var buf [128]byte
		args = append(args, string(m.appendText(buf[:0], begins, p.indexOf(r.keys[m.key]))))
	}
	return args
}

// retry returns how long the n-th meter of p has to wait, in microseconds: 0 if it admits its cost, -1 if it never does.
func (p *part) retry(n int) int64 { return p.values[valuesPerMeter*n] }

// admitted reports whether p by itself was charged.
func (p *part) admitted(r *request) bool {
	if p.err != nil {
		return false
	}
	for n, i := range p.meters {
		if !r.meters[i].dryRun && p.retry(n) != 0 {
			return false
		}
	}
	return true
}

// fits reports whether all limits in p of a claim admit its cost.
func (p *part) fits(r *request, claim int) bool {
	for n, i := range p.meters {
		if r.meters[i].claim == claim && p.retry(n) != 0 {
			return false
		}
	}
	return true
}
