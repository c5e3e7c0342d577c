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

// The codes that jobs.lua replies for a request, before the numbers of its limits or in place of them.
const (
	inFull = -1 // four numbers of each limit follow
	failed = -2
	held   = -3 // as inFull, and requests in flight were in the way
	denied = -4 // less the level: of a denied plain request; the lowest, so that no other is meant by a level
)

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
	n := len(j.asks)
	switch {
	case len(reply) == 0:
		return 0
	case reply[0] == failed:
		return 1
	case j.quiet:
		n = len(j.claims)
	case reply[0] == inFull || reply[0] == held:
		n = 1 + 4*n + len(j.leases)
	default:
		n += len(j.leases)
	}
	return min(n, len(reply))
}

// read sets the usages of j to what the script replied.
func (j *job) read() error {
	reply, each := j.reply, 1
	switch {
	case len(reply) > 0 && reply[0] == failed:
		return errScript
	case j.quiet:
		j.moved = reply
		if len(reply) != len(j.claims) {
			return fmt.Errorf("the script replied %d to %d claims", reply, len(j.claims))
		}
		return nil
	case len(reply) > 0 && (reply[0] == inFull || reply[0] == held):
		j.held = reply[0] == held
		reply, each = reply[1:], 4
	}
	if len(j.leases) > 0 && !j.readLeases(&reply) {
		return fmt.Errorf("the script replied %d to %d leases", j.reply, len(j.leases))
	}
	if len(reply) != each*len(j.asks) {
		return fmt.Errorf("the script replied %d to %d limits", j.reply, len(j.asks))
	}
	for n, i := range j.asks {
		u, ok := j.request.asks[i].usage(reply[each*n : each*(n+1)])
		if !ok {
			return fmt.Errorf("the script replied %d, which cannot be", j.reply)
		}
		j.usages = append(j.usages, u)
	}
	return nil
}

// usage returns what a script says of a, and false if that cannot be.
func (a *ask) usage(reply []int64) (usage, bool) {
	if len(reply) == 1 {
		return a.plainUsage(reply[0])
	}
	u := usage{algorithm.Usage{Remaining: reply[1], Refill: reply[2], Reset: reply[3]}, reply[0]}
	return u, u.retry >= -1 && exact(u.Remaining) && exact(u.Refill) && exact(u.Reset)
}

// plainUsage returns what a level says of a bucket in ticks of 1 µs, likewise.
func (a *ask) plainUsage(level int64) (usage, bool) {
	isDenied := level < 0
	if isDenied {
		level = denied - level
	}
	if a.Algorithm != algorithm.TokenBucket || a.Unit != 1 || a.Rate == 0 || !exact(level) {
		return usage{}, false
	}
	b := algorithm.Bucket{Level: level}
	u := usage{Usage: b.Report(&a.Limit, a.Rate, 0)}
	if isDenied {
		u.retry = b.Wait(&a.Limit, a.Rate, 0, a.asked)
	}
	return u, true
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
