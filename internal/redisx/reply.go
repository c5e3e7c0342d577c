package redisx

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// A usage is the state of a limit after a decision: requests, and waits in microseconds.
type usage struct {
	algorithm.Usage
	retry int64 // 0 if it admits what is asked, -1 if it never does
	wait  int64 // until the turn of a request that it admits
}

// The codes that a request is answered with, before the numbers of its limits: see lua/decide.lua and lua/run.lua.
const (
	held   = 1 // requests in flight were in the way
	rare   = 2 // pairs hold something or are banned
	failed = -2
	farOff = -3
)

// errFarOff wraps ErrInvalid, because this process's clock may be the one that is wrong.
var errFarOff = fmt.Errorf("spillgate: %w: this process's clock and the Redis server's differ by more than a day, so a calendar window cannot be chosen", core.ErrInvalid)

// The numbers for each limit, and how many more there are for each in a reply that is rare.
const (
	limitWords = 4
	rareWords  = 2
)

var errScript = errors.New("the script failed; the log of the Redis server says why")

// deliver gives each job its part of a script's reply.
func (s *Store) deliver(reply []int64, jobs []*job) error {
	all := reply
	if len(reply) < 2 {
		return fmt.Errorf("the script replied %d", all)
	}
	s.countRepairs(reply[1])
	at, reply := reply[0], reply[2:]
	for _, j := range jobs {
		n := min(j.lengthOf(reply), len(reply))
		j.at, j.reply, reply = at, reply[:n], reply[n:]
	}
	if len(reply) > 0 {
		return fmt.Errorf("the script replied %d, which is too much", all)
	}
	return nil
}

// lengthOf returns how many numbers a reply that begins with what is about j must have for j.
func (j *job) lengthOf(reply []int64) int {
	n := 1 + limitWords*len(j.asks) + len(j.leases)
	switch {
	case len(reply) == 0:
		return 1
	case reply[0] == failed, reply[0] == farOff:
		n = 1
	case j.quiet:
		n = len(j.claims)
	case reply[0]&rare != 0:
		n += rareWords * len(j.asks)
	}
	return n
}

// read sets the usages of j to what the script replied.
func (j *job) read() error {
	reply := j.reply
	switch {
	case len(reply) > 0 && reply[0] == failed:
		return errScript
	case len(reply) > 0 && reply[0] == farOff:
		return errFarOff
	case j.quiet:
		j.moved = reply
		if len(reply) != len(j.claims) {
			return fmt.Errorf("the script replied %d to %d claims", reply, len(j.claims))
		}
		return nil
	case len(reply) != j.lengthOf(reply) || reply[0] < 0 || reply[0] > held|rare:
		return fmt.Errorf("the script replied %d to %d limits and %d leases", reply, len(j.asks), len(j.leases))
	}
	isRare := reply[0]&rare != 0
	j.held, reply = reply[0]&held != 0, reply[1:]
	if !j.readLeases(&reply) {
		return fmt.Errorf("the script replied %d to %d leases", j.reply, len(j.leases))
	}
	for n, i := range j.asks {
		r := reply[limitWords*n:][:limitWords]
		u, ok := j.usageOf(&j.request.asks[i], r)
		if !ok {
			return fmt.Errorf("the script replied %d, which cannot be", j.reply)
		}
		if isRare {
			r := reply[limitWords*len(j.asks)+rareWords*n:]
			u.Usage = u.Less(r[0], r[1])
		}
		j.usages = append(j.usages, u)
	}
	return nil
}

// usageOf returns the usage of a limit from the numbers in the reply: see report in the Lua file of each algorithm. It
// reports false if the numbers are impossible.
func (j *job) usageOf(a *ask, r []int64) (u usage, ok bool) {
	u.retry = r[0]
	used := r[1] // less than none if more was granted
	if u.retry < -1 {
		u.retry, u.wait = 0, -1-u.retry
	}
	ok = u.wait <= a.maxWait && u.retry <= algorithm.MaxExact
	switch {
	case a.Algorithm == algorithm.InFlight:
		u.Remaining = a.Capacity
		return u, ok
	case a.Rate == 0: // nothing is ever charged, and the state is not advanced to now
		return u, ok
	case !ok || !exact(max(used, -used)) || !exact(r[2]) || !exact(r[3]):
		return u, false
	case a.Algorithm != algorithm.TokenBucket:
		if u.Remaining = max(0, a.Rate-used); u.Remaining < a.Rate {
			u.Refill, u.Reset = r[2], r[3]
		}
	case used < 0 || r[2] >= a.Unit || r[3] == 0:
		return u, false
	default:
		u.Usage = algorithm.Bucket{Level: used, At: j.at - r[2]}.Report(&a.Limit, r[3], j.at)
	}
	return u, exact(u.Refill) && exact(u.Reset)
}

// exact reports whether n is a number that the scripts count in.
func exact(n int64) bool { return 0 <= n && n <= algorithm.MaxExact }

// appendResults appends a result for each ask. claims are those that r was made of.
func (r *request) appendResults(dst []core.Result, claims []core.Claim, jobs []job) []core.Result {
	start := len(dst)
	for i := range claims {
		for _, l := range claims[i].Limits {
			dst = append(dst, core.Result{Rule: ruleName(claims[i].Rule), Limit: l, DryRun: claims[i].DryRun})
		}
	}
	for i := range jobs {
		for n, m := range jobs[i].asks {
			u, d := &jobs[i].usages[n], &dst[start+m]
			d.Allowed, d.RetryAfter = u.retry == 0, core.Never
			if u.retry >= 0 {
				d.RetryAfter = micros(u.retry)
			}
			d.At, d.Wait = time.UnixMicro(jobs[i].at), micros(u.wait)
			d.Remaining, d.RefillAfter, d.ResetAfter = int(u.Remaining), micros(u.Refill), micros(u.Reset)
		}
	}
	return dst
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// countRepairs counts and logs the states that a script has replaced.
func (s *Store) countRepairs(n int64) {
	if n > 0 {
		s.repaired.Add(uint64(n))
		slog.Warn("spillgate: stored states made no sense and count as used up", "states", n)
	}
}
