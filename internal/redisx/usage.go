package redisx

import (
	"errors"
	"fmt"

	"github.com/spillgate/spillgate/core"
)

// A usage is what a limit says after a decision: requests, and waits in microseconds.
type usage struct {
	retry                    int64 // 0 if it admits what is asked, -1 if it never does
	remaining, refill, reset int64
}

// bucketUsage is what core/tokenbucket.go reports of a bucket at level, settled rest microseconds ago, that drains at rate.
// The scripts leave that to the client.
func (m *meter) bucketUsage(level, rest, rate int64) usage {
	if level <= rate && level*m.unit <= rate*rest { // a faster rate than before has emptied it within the tick
		level = 0
	}
	u := usage{remaining: max(0, m.capacity*m.period-level) / m.period}
	if u.remaining < m.capacity { // so the rate is not 0
		u.refill = m.until(level, rest, rate, (m.capacity-u.remaining-1)*m.period)
		u.reset = m.until(level, rest, rate, 0)
	}
	return u
}

// until returns how long such a bucket takes to drain to target.
func (m *meter) until(level, rest, rate, target int64) int64 {
	if level <= target {
		return 0
	}
	ticks := ceilDiv(level-target, rate)
	if m.unit == 1 {
		return ticks
	}
	if ticks > maxExact/m.unit {
		return maxExact
	}
	wait := ticks * m.unit
	if last := level - (ticks-1)*rate; last <= rate { // empties within this tick
		wait += ceilDiv(last*m.unit, rate) - m.unit
	}
	return wait - rest
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// What take.lua replies in front of, or in place of, what the limits of a request say.
const (
	inFull  = -1 // four numbers of each limit follow
	erred   = -2
	refused = -3 // less the level: of a denied request
)

// repliedTo returns how many numbers of a reply, which may be cut off, are about a request of so many limits.
func repliedTo(reply []int64, meters int) int {
	switch {
	case len(reply) == 0 || reply[0] == erred:
		return min(1, len(reply))
	case reply[0] == inFull:
		return min(1+4*meters, len(reply))
	}
	return min(meters, len(reply))
}

var errScript = errors.New("the script failed; the log of the Redis server says why")

// read sets the usages of p to what it was replied.
func (p *part) read() error {
	reply, each := p.reply, 1
	switch {
	case len(reply) > 0 && reply[0] == erred:
		return errScript
	case len(reply) > 0 && reply[0] == inFull:
		reply, each = reply[1:], 4
	}
	if len(reply) != each*len(p.meters) {
		return fmt.Errorf("the script replied %d to %d limits", p.reply, len(p.meters))
	}
	for n, i := range p.meters {
		u, ok := p.request.meters[i].usage(reply[each*n : each*(n+1)])
		if !ok {
			return fmt.Errorf("the script replied %d, which cannot be", p.reply)
		}
		p.usages = append(p.usages, u)
	}
	return nil
}

// usage returns what a script says of m, and false if that cannot be.
func (m *meter) usage(reply []int64) (usage, bool) {
	if len(reply) == 1 {
		return m.plainUsage(reply[0])
	}
	if m.algorithm != core.TokenBucket {
		return usage{reply[0], reply[1], reply[2], reply[3]}, true
	}
	level, rest, rate := reply[1], reply[2], reply[3]
	if !exact(level) || !exact(rest) || !exact(rate) || rate == 0 && m.rate > 0 {
		return usage{}, false
	}
	u := m.bucketUsage(level, rest, rate)
	u.retry = reply[0]
	return u, true
}

// plainUsage returns what a level says of a bucket in ticks of 1 µs, likewise.
func (m *meter) plainUsage(level int64) (usage, bool) {
	denied := level < 0
	if denied {
		level = refused - level
	}
	if m.algorithm != core.TokenBucket || m.unit != 1 || m.rate == 0 || !exact(level) {
		return usage{}, false
	}
	u := m.bucketUsage(level, 0, m.rate)
	if denied {
		u.retry = m.until(level, 0, m.rate, (m.capacity-m.asked)*m.period)
	}
	return u, true
}

// exact reports whether n is a number that the scripts count in.
func exact(n int64) bool { return 0 <= n && n <= maxExact }
