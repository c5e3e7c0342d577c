package redisx

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// The codes that a reply may begin with: see lua/op.lua.
const (
	stored = iota // there is none: the reply is the pairs as they are stored
	failed        // the request could not be decided
	farOff        // the clock of this process is wrong
	rare          // the reply has numbers for each limit
	held          // the same, and requests in flight caused a denial
	full          // a log cannot hold what is granted
)

// codeOf returns the code of a reply.
func codeOf(reply []int64) int64 {
	if len(reply) == 0 || reply[0] > -algorithm.MaxExact {
		return stored
	}
	return reply[0] / -algorithm.MaxExact
}

// errFarOff wraps ErrInvalid, because this process's clock may be the one that is wrong.
var errFarOff = fmt.Errorf("spillgate: %w: this process's clock and the Redis server's differ by more than a day, so a calendar window cannot be chosen", core.ErrInvalid)

// errFull means that a sliding log cannot hold what is granted. compiled.Full has the error that Settle returns.
var errFull = errors.New("a sliding log is full")

// The numbers of a reply with a code: see lua/op.lua.
const (
	rareWords = 5       // for each limit
	grantZero = 1 << 52 // the last of them is more by this
)

// stateWords returns how many words the state of a limit has, or 0 if no reply has that: see the files of lua/ about algorithms.
func stateWords(l *algorithm.Limit) int {
	switch l.Algorithm {
	case algorithm.TokenBucket:
		return 6
	case algorithm.FixedWindow:
		return 4
	case algorithm.SlidingWindow:
		return 6 + int(l.Sibling)
	}
	return 0
}

var errScript = errors.New("the script failed; the log of the Redis server says why")

// lengthOf returns how many numbers a reply that begins with what is about j must have for j.
func (j *job) lengthOf(reply []int64) int {
	switch codeOf(reply) {
	case stored:
		return j.stored
	case failed, farOff, full:
		return 1
	}
	return 1 + j.settled + rareWords*len(j.usages)
}

// read sets the outcome of each op of j to what the script replied.
func (j *job) read() error {
	reply, code := j.reply, codeOf(j.reply)
	switch {
	case code == failed:
		return errScript
	case code == farOff:
		return errFarOff
	case code == full:
		return errFull
	case len(reply) != j.lengthOf(reply) || code > full || code == stored && j.settled > 0:
		return fmt.Errorf("the script replied %d to %d limits and %d settlements", reply, len(j.usages), j.settled)
	}
	moved := []int64(nil)
	if code != stored {
		moved, reply = reply[1:1+j.settled], reply[1+j.settled:]
	}
	j.held = code == held
	for i := range j.ops {
		o, ok := &j.ops[i], true
		if !o.isDecided() {
			o.moved, moved = moved[0], moved[1:]
			ok = exact(o.moved)
		}
		if o.at = j.at; code == stored && o.begins {
			reply = reply[1:] // until when the pair is kept
		}
		for n := range o.usages {
			u, l := &o.usages[n], &o.limits[n]
			if code == stored {
				ok = ok && o.does != lend && u.readState(reply[:stateWords(l)], o, l)
				reply = reply[stateWords(l):]
			} else {
				ok = ok && u.read(reply[:rareWords], o)
				reply = reply[rareWords:]
			}
			ok = ok && min(u.Remaining, u.Over, u.Refill, u.Reset) >= 0 &&
				exact(max(u.Remaining, u.Over, u.Refill, u.Reset, u.Granted, -u.Granted))
		}
		if !ok {
			return fmt.Errorf("the script replied %d, which is impossible", j.reply)
		}
	}
	return nil
}

// read sets u to the usage of a limit of o from the numbers of a reply with a code. It reports false if the numbers are impossible.
func (u *usage) read(r []int64, o *op) (ok bool) {
	*u = usage{retry: r[0]}
	if u.retry < -1 {
		u.retry, u.wait = 0, -1-u.retry
	}
	u.Remaining, u.Over, u.Refill, u.Reset, u.Granted = max(r[1], 0), max(-r[1], 0), r[2], r[3], r[4]-grantZero
	ok = u.wait <= o.maxWait+o.final && u.retry <= algorithm.MaxExact
	if o.does == lend {
		o.moved, u.wait = u.wait, 0
	}
	return ok
}

// readState sets u to the usage of l, a limit of o that has admitted it, from the words of its state: see the files of lua/ about
// algorithms. It reports false if the words are impossible.
func (u *usage) readState(r []int64, o *op, l *algorithm.Limit) (ok bool) {
	*u = usage{}
	switch l.Algorithm {
	case algorithm.TokenBucket:
		b := algorithm.Bucket{Level: r[2], At: r[3]}
		if ok = exact(b.Level) && exact(b.At) && b.At <= o.at && o.at-b.At < l.Unit; ok && u.Set(l, b.Level, 0) {
			u.Refill, u.Reset = b.Until(l, l.Rate, o.at, (l.Capacity-u.Remaining-1)*l.Period)
		}
	case algorithm.FixedWindow:
		if ok = exact(r[1]); ok && u.Set(l, r[1], 0) {
			u.Refill, u.Reset = r[3]-o.at, r[3]-o.at
		}
	case algorithm.SlidingWindow:
		if ok = exact(r[2]) && r[3] >= r[4] && r[3]-r[4] <= l.Micros+l.Width && exact(r[3]) && exact(r[4]); ok && u.Set(l, r[2], 0) {
			u.Refill, u.Reset = l.UntilCounted(r[2], r[3], r[4], r[5:], o.at, l.Rate-u.Remaining-1), r[3]+l.Micros-o.at
		}
	}
	return ok
}

// exact reports whether n is a number that the scripts count in.
func exact(n int64) bool { return 0 <= n && n <= algorithm.MaxExact }

// appendResults appends a result for each limit of claims, which j was made of.
func (j *job) appendResults(dst []core.Result, claims []core.Claim) []core.Result {
	start := len(dst)
	for i := range claims {
		for _, l := range claims[i].Limits {
			dst = append(dst, core.Result{Rule: ruleName(claims[i].Rule), Limit: l, DryRun: claims[i].DryRun})
		}
	}
	for i := range j.ops {
		o := &j.ops[i]
		for n := range o.usages {
			u, d := &o.usages[n], &dst[start+o.of+n]
			d.Allowed, d.RetryAfter = u.retry == 0, core.Never
			if u.retry >= 0 {
				d.RetryAfter = micros(u.retry)
			}
			d.At, d.Wait = time.UnixMicro(o.at), micros(u.wait)
			d.Remaining, d.Granted, d.Over = int(u.Remaining), int(u.Granted), int(u.Over)
			d.RefillAfter, d.ResetAfter = micros(u.Refill), micros(u.Reset)
		}
	}
	return dst
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
