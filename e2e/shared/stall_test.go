package shared

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A stall is a time in which Redis or this process came to a halt, in microseconds since the Unix epoch.
type stall struct{ begun, ended int64 }

// watchStalls records stalls, until stop is called: the calls of leasers fail in the meantime, or they have no CPU.
func (c *crew) watchStalls() (stop func()) {
	l := c.leaser
	l.Lease, l.Timeout = 0, longTimeout
	limiter, peek := l.limiter(), claimAll()
	peek.Peek = true
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for last := time.Now(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			_, err := limiter.Take(ctx, peek)
			now := time.Now()
			if err != nil || now.Sub(last) > timeout {
				c.stalls = append(c.stalls, stall{last.UnixMicro(), now.UnixMicro()})
			}
			last = now
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// served returns what share of the limit was admitted between two instants, and what was asked, in limits. The time of stalls
// does not count, nor that until leases from before have ended and what was saved up is used. counted is how much does.
func (c *crew) served(since, until time.Time) (served, asked float64, counted time.Duration) {
	limit := core.MustParseLimits(c.leaser.Limit)[0]
	perSecond := float64(limit.Rate) / limit.Period.Seconds()
	recovery := c.leaser.Lease + time.Duration(float64(limit.Capacity())/perSecond*float64(time.Second))
	counts := func(at int64) bool {
		return !slices.ContainsFunc(c.stalls, func(s stall) bool { return s.begun <= at && at < s.ended+recovery.Microseconds() })
	}
	for _, t := range c.turns {
		if t.begun >= since.UnixMicro() && t.ended <= until.UnixMicro() && counts(t.begun) {
			served += float64(t.admitted)
			asked += float64(t.asked)
		}
	}
	for at := since.UnixMicro(); at < until.UnixMicro(); at += grid {
		if counts(at) {
			counted += grid * time.Microsecond
		}
	}
	all := max(1, perSecond*counted.Seconds())
	return served / all, asked / all, counted
}

// admittedSince reports whether a request was admitted in a turn that began after an instant.
func (c *crew) admittedSince(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.turns, func(t turn) bool { return t.begun > at.UnixMicro() && t.admitted > 0 })
}
