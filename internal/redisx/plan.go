package redisx

import (
	"encoding/binary"
	"strconv"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// prepare sets what the script reads of j, and its load. If peek is set, j charges nothing that is decided.
func (j *job) prepare(peek bool) {
	letter := byte('t')
	if peek {
		letter = 'p'
	}
	r := j.request
	var planBuf, wordBuf [512]byte
	plan, words := append(planBuf[:0], letter), wordBuf[:0]
	j.load, j.settled = 0, j.settled[:0]
	last := -1
	for _, asks := range [...][]int{j.asks, j.others} {
		for _, i := range asks {
			a := &r.asks[i]
			o := &r.ops[a.op]
			plan = a.appendPlan(plan, o, a.op != last)
			if a.op != last {
				words = o.appendWords(words)
				if !o.isDecided() {
					j.settled = append(j.settled, a.op)
				}
			}
			last = a.op
			j.load += a.load(o)
		}
	}
	if string(plan) != j.plan { // j may start with the plan and the words of an earlier job
		j.plan = string(plan)
	}
	if string(words) != j.words {
		j.words = string(words)
	}
}

// appendPlan appends what a plan says of a, an ask of o: see lua/plan.lua. begins says whether a is the first ask of o.
func (a *ask) appendPlan(b []byte, o *op, begins bool) []byte {
	head, starts := int64(a.place+1)<<6|int64(o.does)<<2, []int64(nil)
	unit, ban := a.Unit+a.Width, a.Ban
	switch {
	case a.turn != nil:
		starts = a.turn.starts
		unit, ban = int64(len(starts)), a.turn.minute
	case a.log > 0:
		unit = int64(a.logPlace + 1)
	}
	if begins {
		head |= 1
	}
	if o.dryRun {
		head |= 2
	}
	for _, n := range [...]int64{head, a.kind(), a.Rate, a.Capacity, unit, ban} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	for _, n := range starts {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return b
}

// kind returns the kind of the states of a: see lua/pair.lua.
func (a *ask) kind() int64 {
	if a.Kind == algorithm.CellsKind { // in flight, or of a ban
		return 0
	}
	return (a.Micros|int64(a.Calendar))*24 + int64(a.Algorithm)*4
}

// appendWords appends the numbers of o: see lua/plan.lua.
func (o *op) appendWords(b []byte) []byte {
	if o.isDecided() {
		return appendWords(b, o.cost, o.maxWait)
	}
	return appendWords(b, o.cost, o.final, o.at, o.turn)
}

// The plan and the words of a job that resets its only key.
var (
	resetPlan  = string((&ask{Limit: &noLimit}).appendPlan([]byte{'t'}, &op{does: reset}, true))
	resetWords = string((&op{does: reset}).appendWords(nil))
)

// appendWords appends numbers as words: see lua/word.lua.
func appendWords(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// The load of an ask on a server: of a plain request, of others, and of each so many members of a sliding log that it may add or
// remove. See maxLoad.
const (
	plainLoad      = 1
	otherLoad      = 4
	membersPerLoad = 64

	maxMembers = 10_000 // of a sliding log: see lua/log.lua
)

// load returns an upper bound of the server's work for a, an ask of o.
func (a *ask) load(o *op) int {
	switch {
	case a.Algorithm == algorithm.SlidingLog:
		return otherLoad + int(min(a.Rate+o.cost, maxMembers)/membersPerLoad)
	case a.Algorithm == algorithm.SlidingWindow, o.does == peek, o.does == hold, o.dryRun:
		return otherLoad
	}
	return plainLoad
}
