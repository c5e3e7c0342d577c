package redisx

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// prepare sets what the script reads of j, and its load, and makes room for the reply. If peek is set, j charges nothing that is decided.
func (j *job) prepare(peek bool) {
	letter := byte('t')
	if peek {
		letter = 'p'
	}
	decided, text := 0, j.text[:0]
	j.keys, j.load, j.settled, j.stored = j.keys[:0], 0, 0, 0
	for i := range j.ops {
		o := &j.ops[i]
		o.place = j.keyIndex(o.key)
		if o.begins = i == 0 || o.place != j.ops[i-1].place; o.begins {
			j.stored++
		}
		if o.isDecided() {
			decided += len(o.limits)
		} else {
			j.settled++
		}
		for _, n := range [...]int64{o.cost, o.final, o.at, o.maxWait + o.turn} {
			text = binary.LittleEndian.AppendUint64(text, uint64(n)) // see lua/word.lua
		}
	}
	j.words, text = argument(text, j.words), append(text[:0], letter)
	j.usages = slices.Grow(j.usages[:0], decided)[:decided]
	rest := j.usages
	for i := range j.ops {
		o := &j.ops[i]
		if o.isDecided() {
			o.usages, rest = rest[:len(o.limits)], rest[len(o.limits):]
		}
		for n := range o.limits {
			l := &o.limits[n]
			text = j.appendPlan(text, o, l, n == 0)
			j.load += o.load(l)
			j.stored += stateWords(l)
		}
	}
	j.plan, j.text = argument(text, j.plan), text
}

// argument returns b as a string: old, which an earlier job has left, if that is the same.
func argument(b []byte, old any) any {
	if text, ok := old.(string); ok && text == string(b) {
		return old
	}
	return string(b)
}

// appendPlan appends what a plan says of l, a limit of o: see lua/plan.lua. begins says whether l is the first limit of o.
func (j *job) appendPlan(b []byte, o *op, l *algorithm.Limit, begins bool) []byte {
	head, starts := int64(o.place+1)<<6|int64(o.does)<<2, []int64(nil)
	kind, unit, ban := (l.Micros|int64(l.Calendar))*24+int64(l.Algorithm)*4, l.Unit+l.Width, l.Ban // see lua/pair.lua
	switch {
	case l.Kind == algorithm.CellsKind: // in flight, or of a ban
		kind = 0
	case l.Calendar != 0:
		s := startsOf(l, &j.layout.wall)
		starts = s.starts
		unit, ban = int64(len(starts)), s.minute
	case l.Algorithm == algorithm.SlidingLog: // its key follows the keys of all pairs: see lua/pair.lua
		unit = int64(j.keyIndex(o.key+":"+strconv.FormatInt(l.Micros, 10)) + 1)
	}
	if begins {
		head |= 1
	}
	if o.dryRun {
		head |= 2
	}
	for _, n := range [...]int64{head, kind, l.Rate, l.Capacity, unit, ban} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, n := range starts {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// The load of a limit on a server: of a plain request, of others, and of each so many members of a sliding log that it may add or
// remove. See maxLoad.
const (
	plainLoad      = 1
	otherLoad      = 4
	membersPerLoad = 64
)

// load returns an upper bound of the server's work for l, a limit of o.
func (o *op) load(l *algorithm.Limit) int {
	switch l.Algorithm {
	case algorithm.SlidingLog:
		return otherLoad + int(min(l.Rate+o.cost, algorithm.MaxMembers)/membersPerLoad)
	case algorithm.TokenBucket, algorithm.FixedWindow, algorithm.InFlight:
		if o.does != peek && o.does != hold && !o.dryRun {
			return plainLoad
		}
	}
	return otherLoad
}
