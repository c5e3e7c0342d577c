package redisx

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/lease"
)

// The codes that a reply may begin with: see lua/decide.lua.
const (
	plain  = iota // there is none
	failed        // the request could not be decided
	farOff        // the clock of this process is wrong
	rare          // the reply has three more numbers for each limit
	held          // the same, and requests in flight caused a denial
)

// codeOf returns the code of a reply.
func codeOf(reply []int64) int64 {
	if len(reply) == 0 || reply[0] > -algorithm.MaxExact {
		return plain
	}
	return reply[0] / -algorithm.MaxExact
}

// errFarOff wraps ErrInvalid, because this process's clock may be the one that is wrong.
var errFarOff = fmt.Errorf("spillgate: %w: this process's clock and the Redis server's differ by more than a day, so a calendar window cannot be chosen", core.ErrInvalid)

// rareWords is how many more numbers there are for each limit in a reply that is rare.
const rareWords = 3

// replied returns how many numbers a reply has for a.
func (a *ask) replied() int {
	if a.Algorithm == algorithm.SlidingWindow || a.Algorithm == algorithm.SlidingLog {
		return 4
	}
	return 3
}

var errScript = errors.New("the script failed; the log of the Redis server says why")

// lengthOf returns how many numbers a reply that begins with what is about j must have for j.
func (j *job) lengthOf(reply []int64) int {
	code, n := codeOf(reply), len(j.leases)
	switch {
	case code == failed, code == farOff:
		return 1
	case j.quiet:
		return len(j.claims)
	case code != plain:
		n += 1 + rareWords*len(j.asks)
	}
	for _, i := range j.asks {
		n += j.request.asks[i].replied()
	}
	return n
}

// read sets the usages of j to what the script replied.
func (j *job) read() error {
	reply, code := j.reply, codeOf(j.reply)
	switch {
	case code == failed:
		return errScript
	case code == farOff:
		return errFarOff
	case j.quiet:
		j.moved = reply
		if len(reply) != len(j.claims) {
			return fmt.Errorf("the script replied %d to %d claims", reply, len(j.claims))
		}
		return nil
	case len(reply) != j.lengthOf(reply) || code > held:
		return fmt.Errorf("the script replied %d to %d limits and %d leases", reply, len(j.asks), len(j.leases))
	}
	if !j.readLeases(&reply) {
		return fmt.Errorf("the script replied %d to %d leases", j.reply, len(j.leases))
	}
	j.held = code == held
	var more []int64 // of a reply that is rare
	if code != plain {
		n := len(reply) - rareWords*len(j.asks)
		reply, more = reply[1:n], reply[n:]
	}
	for _, i := range j.asks {
		a := &j.request.asks[i]
		rate, granted := a.Rate, int64(0)
		if more != nil {
			rate, granted = more[2], more[2]
		}
		u, ok := j.usageOf(a, reply, rate, granted)
		if !ok {
			return fmt.Errorf("the script replied %d, which is impossible", j.reply)
		}
		reply = reply[a.replied():]
		if more != nil {
			u.Usage = u.Less(more[0], more[1])
			more = more[rareWords:]
		}
		j.usages = append(j.usages, u)
	}
	return nil
}

// readLeases cuts the grants from the end of a reply, and reports whether they are valid. It clears the unused
// requests, which have been returned, so that they are not returned again if the job is sent once more.
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

// usageOf returns the usage of a limit from the numbers in the reply: see report in the Lua file of each algorithm. A
// bucket drains at a rate, and another limit is granted requests. usageOf reports false if the numbers are impossible.
func (j *job) usageOf(a *ask, r []int64, rate, granted int64) (u usage, ok bool) {
	u.retry = r[0]
	used := r[1]
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
	case !ok || !exact(used) || !exact(r[2]) || !exact(r[a.replied()-1]):
		return u, false
	case a.Algorithm != algorithm.TokenBucket:
		var missing bool
		if u.Usage, missing = algorithm.UsageOf(a.Limit, used, granted); missing {
			u.Refill, u.Reset = r[2], r[a.replied()-1]
		}
		return u, exact(max(granted, -granted))
	case r[2] >= a.Unit || rate <= 0 || !exact(rate):
		return u, false
	default:
		u.Usage = algorithm.Bucket{Level: used, At: j.at - r[2]}.Report(a.Limit, rate, j.at)
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
			d.Remaining, d.Granted, d.Over = int(u.Remaining), int(u.Granted), int(u.Over)
			d.RefillAfter, d.ResetAfter = micros(u.Refill), micros(u.Reset)
		}
	}
	return dst
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
