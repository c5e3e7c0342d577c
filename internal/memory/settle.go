package memory

import (
	"math"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A Settlement changes the charge or the hold of a claim to Final, renews its hold, bans its pair, or grants it
// requests.
type Settlement struct {
	Pair    Pair
	Limits  []algorithm.Limit // of the claim
	Claimed int64             // the cost of the claim, which is held or was charged
	At      int64             // the instant of the Take, or of the last renewal, or NoInstant
	DryRun  bool              // charge more than was charged only if that fits
	Held    bool
	Final   int64
	Renew   bool  // keep what was held
	Renewed bool  // set by Settle: the hold was renewed, and counts from At
	Ban     int64 // microseconds for which nothing of the pair fits
	Waits   bool  // requests of the claim may wait
	Turn    int64 // the instant at which the request could go on, if Waits
	Grant   int64 // requests to add
}

// changes reports whether t changes anything. If not, Settle leaves the pair as it is and ends no holds, like the Redis store,
// which does not call the server then.
func (t *Settlement) changes() bool {
	return t.Held || t.Ban > 0 || t.Grant != 0 || t.Final != t.Claimed
}

// NoInstant is the At of a Settlement whose Take another store has decided.
const NoInstant = math.MinInt64

// settle settles c by what t says.
func (d *decision) settle(s *Store, c *Claim, t *Settlement) {
	d.find(c) // an earlier settlement may have added records
	switch {
	case t.Grant != 0:
		d.grant(s, c, t.Grant)
	case t.Ban > 0:
		d.addBan(s, c, t.Ban)
	case t.Renew:
		d.renew(c, t)
	case t.Held:
		if ended, late := d.release(c, t); late {
			d.adjust(s, c, t, ended)
			return
		}
		final := t.Final
		if t.DryRun && final > t.Claimed && !d.admits(c, final) {
			final = t.Claimed
		}
		d.chargeAll(s, c, final)
	default:
		d.adjust(s, c, t, t.At)
	}
}

// adjust makes what was charged at an instant the final cost. A dry run is charged more than it was only if that fits.
func (d *decision) adjust(s *Store, c *Claim, t *Settlement, at int64) {
	if more := t.Final - t.Claimed; more > 0 {
		if !t.DryRun || d.admits(c, more) {
			d.chargeAll(s, c, more)
		}
		return
	}
	for i := range c.asks {
		if a := &c.asks[i]; a.hasRecord() && at >= c.shard.resets.begunAt(c.Pair.id) {
			d.refund(c, a, t, at, t.Claimed-t.Final)
		}
	}
}

// refund takes cost, which t says was charged at an earlier instant, from the state as far as it still counts.
func (d *decision) refund(c *Claim, a *ask, t *Settlement, at, cost int64) {
	s, p := c.shard, a.Stored
	switch {
	case cost <= 0 || a.Limit.Rate == 0 || a.Limit.Row.KeepsLog && p.Extra == 0:
		return
	case t.Waits && c.bannedBehind(t.Turn, d.now): // other requests may wait for the end of the ban, which the level does not show
		return
	case t.Waits:
		p.RefundTurn(a.Limit, d.now, at, t.Turn, cost)
	default:
		a.Limit.Row.Refund(p, s.logOf(a.Limit.Row, p), a.Limit, d.now, at, cost)
	}
	a.noteEnd(c.shard)
}

// bannedBehind reports whether the pair of c is banned at now, until after a turn.
func (c *Claim) bannedBehind(turn, now int64) bool {
	return c.ban != nil && c.ban.At > max(turn, now)
}

// admits reports whether all limits of c have room for cost.
func (d *decision) admits(c *Claim, cost int64) bool {
	d.loadPair(c)
	for i := range c.asks {
		a := &c.asks[i]
		if a.Limit.Algorithm == algorithm.InFlight {
			continue
		}
		if a.hasRecord() && a.Limit.Row.NameRate != nil {
			s := a.State
			s.Own, s.Peek = false, true // follow the clock, but name no rate
			a.Limit.Row.NameRate(&s, false)
		}
		a.load(c)
		a.asked = cost
		a.retry = a.Limit.Row.Wait(&a.State, cost)
		if a.waitForPair(c); a.retry != 0 {
			return false
		}
	}
	return true
}

// chargeAll charges cost to all limits of c, whether it fits or not.
func (d *decision) chargeAll(s *Store, c *Claim, cost int64) {
	if cost == 0 {
		return
	}
	for i := range c.asks {
		a := &c.asks[i]
		a.Peek = a.Limit.Rate == 0 // a rate of 0 needs no state
	}
	d.placeClaim(s, c)
	for i := range c.asks {
		if a := &c.asks[i]; !a.Peek {
			a.load(c)
			d.charge(c, a, cost)
		}
	}
}

// grant gives all limits of c n more requests, or takes them away if n is negative. States that c shares with other
// pairs, because the store is full, stay unchanged: a grant to them would admit the others again.
func (d *decision) grant(s *Store, c *Claim, n int64) {
	for i := range c.asks {
		a := &c.asks[i]
		a.Peek = a.Limit.Rate == 0 // a rate of 0 needs no state
	}
	d.placeClaim(s, c)
	for i := range c.asks {
		a := &c.asks[i]
		if a.Peek || !a.hasRecord() || !a.Own {
			continue
		}
		a.load(c)
		a.addLog(c.shard)
		a.Limit.Row.Grant(&a.State, n)
		a.noteEnd(c.shard)
	}
}

// release takes the hold that t settles. It reports whether t is late, and the instant at which the hold has ended and
// was charged.
func (d *decision) release(c *Claim, t *Settlement) (ended int64, late bool) {
	if t.At == NoInstant {
		return 0, false
	}
	if c.hold != nil && c.hold.hasHolds() {
		if _, ok := c.shard.holds.at(c.hold.Extra).Release(t.At, t.Claimed); ok {
			c.shard.held(c.hold, d.now)
			return 0, false
		}
	}
	ended = algorithm.EndOf(t.At)
	return ended, ended <= d.now
}

// renew makes what a claim held at an earlier instant a hold of now, unless it has ended.
func (d *decision) renew(c *Claim, t *Settlement) {
	if c.hold == nil || !c.hold.hasHolds() {
		return
	}
	if released, ok := c.shard.holds.at(c.hold.Extra).Release(t.At, t.Claimed); ok {
		c.add(d.now, released)
		t.At, t.Renewed = d.now, true
	}
}

// addBan bans a pair for ban microseconds. It does not shorten a longer ban. In a full store, other pairs may share the
// ban.
func (d *decision) addBan(s *Store, c *Claim, ban int64) {
	d.placeOne(s, c, algorithm.BanKind)
	d.find(c)
	r := c.ban
	r.Level, r.At = 1, max(r.At, min(d.now+ban, algorithm.MaxExact))
	c.shard.endsAt(r.At)
}
