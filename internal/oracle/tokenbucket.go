package oracle

import (
	"math/big"

	"github.com/spillgate/spillgate/core"
)

const (
	maxUnits = 1 << 53   // no bucket holds more, in requests times the period in ticks
	maxBusy  = 1<<32 - 1 // microseconds that busy may lie before at
)

// A tokenBucket held level requests at the instant at. Whatever drains, drains in whole ticks from there.
type tokenBucket struct {
	level *big.Rat
	at    int64
	busy  int64 // at of the last charge that found less than one request
	tick  int64 // microseconds
}

// A drain is how a limit empties a bucket.
type drain struct {
	tick    int64    // microseconds
	period  int64    // ticks
	perTick *big.Rat // requests
}

// drainOf chooses the finest tick in which a full bucket has at most maxUnits.
func drainOf(l core.Limit) drain {
	var d drain
	for _, d.tick = range []int64{1, 1000, 1_000_000} {
		d.period = ceilDiv(l.Period.Microseconds(), d.tick)
		full := new(big.Int).Mul(big.NewInt(int64(l.Capacity())), big.NewInt(d.period))
		if full.Cmp(big.NewInt(maxUnits)) <= 0 {
			break
		}
	}
	d.perTick = new(big.Rat).SetFrac64(int64(l.Rate), d.period)
	return d
}

// in returns b counted in the ticks of d. The requests used stay the same, as far as ticks can say so.
func (b tokenBucket) in(d drain) tokenBucket {
	if b.tick != d.tick {
		b.level = smaller(roundUp(b.level, d.period), new(big.Rat).SetFrac64(maxUnits, d.period))
		b.tick = d.tick
	}
	return b
}

// rewind adds what would have drained until b.at to the level at now, but does not fill b more than full.
func (b *tokenBucket) rewind(l core.Limit, now int64) {
	if b.at <= now || l.Rate == 0 {
		return
	}
	d := drainOf(l)
	*b = b.in(d)
	more := times(d.perTick, ceilDiv(b.at-now, d.tick))
	full := larger(b.level, whole(int64(l.Capacity())))
	b.level = smaller(more.Add(more, b.level), full)
	b.at, b.busy = now, min(b.busy, now)
}

// settled returns b as it is at now.
func (b tokenBucket) settled(l core.Limit, now int64) tokenBucket {
	d := drainOf(l)
	b = b.in(d)
	elapsed := now - b.at
	exact := times(d.perTick, elapsed)
	if times(b.level, d.tick).Cmp(exact) <= 0 {
		b.level, b.at = new(big.Rat), now
		return b
	}
	ticks := elapsed / d.tick
	b.level = new(big.Rat).Sub(b.level, times(d.perTick, ticks))
	b.at += ticks * d.tick
	return b
}

func (b *tokenBucket) used(l core.Limit, _, then int64) *big.Rat { return b.settled(l, then).level }

func (b *tokenBucket) charge(l core.Limit, now, cost int64) {
	*b = b.settled(l, now)
	if b.level.Cmp(whole(1)) < 0 {
		b.busy = b.at
	}
	b.busy = max(b.busy, b.at-maxBusy)
	b.level = new(big.Rat).Add(b.level, whole(cost))
}

// refund gives back all of cost if nothing was charged since. Else it gives back what cannot have drained since, and at
// least one request if the bucket has never held less since.
func (b *tokenBucket) refund(l core.Limit, now, at, cost int64) {
	if cost == 0 {
		return
	}
	d := drainOf(l)
	*b = b.in(d)
	back := whole(cost)
	if at < b.at {
		drained := times(d.perTick, ceilDiv(max(0, now-at), d.tick))
		back = larger(back.Sub(back, drained), new(big.Rat))
		if at >= b.busy {
			back = larger(back, whole(1))
		}
		if back.Sign() > 0 { // so the charges since have found less
			b.busy = b.at
		}
	}
	b.level = larger(new(big.Rat).Sub(b.level, back), new(big.Rat))
}
