package redisx

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/lease"
)

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
			return fmt.Errorf("the script replied %d, which is impossible", j.reply)
		}
		if isRare {
			r := reply[limitWords*len(j.asks)+rareWords*n:]
			u.Usage = u.Less(r[0], r[1])
		}
		j.usages = append(j.usages, u)
	}
	return nil
}

// readLeases cuts the grants from the end of a reply, and reports whether they are valid. It clears the unused
// requests, which have been given back, so that they are not given back again if the job is sent once more.
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
		l.granted, l.unused = granted, lease.Portions{}
	}
	*reply = (*reply)[:n]
	return true
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
		u.Usage = algorithm.Bucket{Level: used, At: j.at - r[2]}.Report(a.Limit, r[3], j.at)
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
