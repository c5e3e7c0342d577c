package redisx

import (
	"slices"
	"strconv"
)

// A routing says which keys one run of a script may use.
type routing uint32

const (
	anyKeys    routing = iota // all: one server, or the master of a Sentinel
	bySlot                    // keys of one hash slot: a Redis Cluster
	byIdentity                // keys of one identity: a Ring, which does not say where a key is
	byKey                     // one key: a slot that is migrating
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// nameOf returns a name that is the same for all keys that one run may use together.
func (how routing) nameOf(key string, l *layout) string {
	switch how {
	case bySlot:
		return strconv.Itoa(slotOf(l.tagOf(key)))
	case byIdentity:
		return l.tagOf(key)
	}
	return key
}

// jobsOf returns the jobs of r. The jobs of an earlier call for r are no longer valid.
func (how routing) jobsOf(r *request, l *layout) []job {
	r.jobs = r.jobs[:0]
	if how == anyKeys {
		r.jobs = append(r.jobs, job{request: r, keys: r.keys, asks: upTo(len(r.asks))})
	} else {
		for i := range r.asks {
			name := how.nameOf(r.keys[r.asks[i].key], l)
			n := slices.IndexFunc(r.jobs, func(j job) bool { return j.route == name })
			if n < 0 {
				n = len(r.jobs)
				r.jobs = append(r.jobs, job{request: r, route: name})
			}
			r.jobs[n].add(i)
		}
	}
	r.usages = slices.Grow(r.usages[:0], len(r.asks))[:len(r.asks)]
	rest := r.usages
	for i := range r.jobs {
		j := &r.jobs[i]
		j.plan = r.plan
		j.prepare(false)
		r.plan = j.plan
		j.usages, rest = rest[:0:len(j.asks)], rest[len(j.asks):]
	}
	return r.jobs
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

// slotOf returns the hash slot of a hash tag: its CRC-16/XMODEM modulo the number of slots.
// See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model.
func slotOf(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
