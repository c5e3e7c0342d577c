package redisx

import "encoding/binary"

// A leased claim of a Take charges requests ahead, or gives back some that were: see lua/take.lua.
type leased struct {
	claim   int
	want    int64
	backs   backs
	granted int64 // what was charged ahead
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

// asksFor reports whether an ask of j is of a claim.
func (j *job) asksFor(claim int) bool {
	for _, i := range j.asks {
		if j.request.asks[i].claim == claim {
			return true
		}
	}
	return false
}

func (l *leased) appendNumbers(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(l.want))
	for _, back := range l.backs {
		b = binary.LittleEndian.AppendUint64(b, uint64(back.at))
		b = binary.LittleEndian.AppendUint64(b, uint64(back.n))
	}
	return b
}

// readLeases cuts the grants from the end of a reply, and reports whether they are valid. It clears backs: they have been given
// back, and must not be again if the job is sent once more.
func (j *job) readLeases(reply *[]int64) bool {
	n := len(*reply) - len(j.leases)
	if n < 0 {
		return false
	}
	for i, granted := range (*reply)[n:] {
		l := &j.request.leases[j.leases[i]]
		if granted < 0 || granted > l.want {
			return false
		}
		l.granted, l.backs = granted, backs{}
	}
	*reply = (*reply)[:n]
	return true
}

// lease makes a claim of r a leased one. It must be called in the order of the claims.
func (r *request) lease(claim int, want int64, b backs) {
	r.leases = append(r.leases, leased{claim: claim, want: want, backs: b})
	for i := range r.asks {
		if r.asks[i].claim == claim {
			r.asks[i].leased = true
		}
	}
}

// free sets the cost of a claim of r to 0.
func (r *request) free(claim int) {
	for i := range r.asks {
		if r.asks[i].claim == claim {
			r.asks[i].cost, r.asks[i].asked = 0, 0
		}
	}
}
