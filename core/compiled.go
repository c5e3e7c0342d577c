package core

import (
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A compiled limit is a Limit in the units that its algorithm counts in.
type compiled struct {
	algorithm.Limit
	limit Limit
	err   error // what is wrong with it
}

// cache has the limits that were compiled lately: a look-up instead of a validation and some divisions per decision.
// It is for the whole process, because most stores see the same few limits all the time.
var cache [1024]atomic.Pointer[compiled]

// compile returns l compiled. It may be invalid.
func compile(l *Limit) *compiled {
	h := uint64(l.Rate)<<32 ^ uint64(l.Period) ^ uint64(l.Burst)<<16 ^ uint64(l.Buckets)<<8 ^ uint64(l.Algorithm) ^ l.Calendar.hash()
	p := &cache[h*0x9e3779b97f4a7c15>>54]
	if c := p.Load(); c != nil && c.is(l) {
		return c
	}
	c := &compiled{limit: *l}
	c.Limit, c.err = l.compile()
	p.Store(c)
	return c
}

// is reports whether c is l compiled. To compare the fields one by one takes less time than == does.
func (c *compiled) is(l *Limit) bool {
	return c.limit.Rate == l.Rate && c.limit.Period == l.Period && c.limit.Burst == l.Burst &&
		c.limit.Algorithm == l.Algorithm && c.limit.Buckets == l.Buckets && c.limit.Ban == l.Ban &&
		c.limit.Calendar == l.Calendar
}

// compile returns an error that says what is wrong with l.
func (l Limit) compile() (algorithm.Limit, error) {
	if err := l.validate(); err != nil {
		return algorithm.Limit{}, err
	}
	c := algorithm.Limit{
		Algorithm: algorithm.Algorithm(l.Algorithm), Rate: int64(l.Rate), Capacity: int64(l.Capacity()),
		Micros: l.Period.Microseconds(), Ban: l.Ban.Microseconds(),
	}
	if l.Algorithm == SlidingWindow {
		c.Width = l.Width().Microseconds()
	}
	c, fits := algorithm.Compile(c)
	switch {
	case fits:
		return c, nil
	case l.Ban > 0:
		return c, invalid("capacity %d over period %v and a ban of %v would overflow; want one of them smaller", l.Capacity(), l.Period, l.Ban)
	}
	return c, invalid("capacity %d over period %v would overflow; want one of them smaller", l.Capacity(), l.Period)
}
