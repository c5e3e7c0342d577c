package redisx

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// A usage is what a limit says after a decision: requests, and waits in microseconds.
type usage struct {
	algorithm.Usage
	retry int64 // 0 if it admits what is asked, -1 if it never does
}

// The codes that a request is answered with, before the numbers of its limits: see lua/run.lua.
const (
	held   = 1 // requests in flight were in the way
	failed = -2
	farOff = -3
)

// errFarOff is bad input, because the clock that is wrong may be this process's.
var errFarOff = fmt.Errorf("spillgate: %w: this process's clock and the Redis server's differ by more than a day, so a calendar window cannot be chosen", core.ErrInvalid)

var errScript = errors.New("the script failed; the log of the Redis server says why")

// deliver gives each job what the reply of a script says of it.
func (s *Store) deliver(reply []int64, jobs []*job) error {
	all := reply
	if len(reply) < 2 {
		return fmt.Errorf("the script replied %d", all)
	}
	s.countRepairs(reply[1])
	at, reply := reply[0], reply[2:]
	for _, j := range jobs {
		n := j.lengthOf(reply)
		j.at, j.reply, reply = at, reply[:n], reply[n:]
	}
	if len(reply) > 0 {
		return fmt.Errorf("the script replied %d, which is too much", all)
	}
	return nil
}

// lengthOf returns how many numbers of a reply, which may be cut off, are about j.
func (j *job) lengthOf(reply []int64) int {
	n := 1 + 4*len(j.asks) + len(j.leases)
	switch {
	case len(reply) == 0:
		return 0
	case reply[0] == failed, reply[0] == farOff:
		n = 1
	case j.quiet:
		n = len(j.claims)
	}
	return min(n, len(reply))
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
	case len(reply) != 1+4*len(j.asks)+len(j.leases) || reply[0] < 0 || reply[0] > held:
		return fmt.Errorf("the script replied %d to %d limits and %d leases", reply, len(j.asks), len(j.leases))
	}
	j.held, reply = reply[0] == held, reply[1:]
	if !j.readLeases(&reply) {
		return fmt.Errorf("the script replied %d to %d leases", j.reply, len(j.leases))
	}
	for n := range j.asks {
		r := reply[4*n : 4*n+4]
		u := usage{algorithm.Usage{Remaining: r[1], Refill: r[2], Reset: r[3]}, r[0]}
		if u.retry < -1 || !exact(u.Remaining) || !exact(u.Refill) || !exact(u.Reset) {
			return fmt.Errorf("the script replied %d, which cannot be", j.reply)
		}
		j.usages = append(j.usages, u)
	}
	return nil
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
			d.At = time.UnixMicro(jobs[i].at)
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
