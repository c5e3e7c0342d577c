package core

import "time"

// deciding is one Take of a MemoryStore, while it holds the locks of the shards concerned.
type deciding struct {
	store    *MemoryStore
	held     uint64
	meters   []meter
	now      int64
	twins    bool // some meters share a state
	admitted bool
}

// meter sets a meter for each limit of each claim. They lie in a shard that is held, where the next decision finds them
// allocated.
func (d *deciding) meter(pairs []pair, claims []Claim) {
	if len(pairs) == 0 {
		return
	}
	home := d.store.shard(pairs[0].id)
	d.meters = home.meters[:0]
	for i := range claims {
		c := &claims[i]
		cost := min(int64(max(c.Cost, 1)), maxExact)
		for j := range c.Limits {
			d.meters = append(d.meters, meter{
				pair: pairs[i], limit: scaleOf(&c.Limits[j]), shard: d.store.shard(pairs[i].id), claim: i,
				cost: cost, asked: cost, peek: c.Peek, dryRun: c.DryRun,
			})
		}
	}
	home.meters = d.meters
	d.twins = addTwins(d.meters)
}

// addTwins adds up what the meters of one state ask for, apart from peeks, and apart for dry runs, which must not make
// others fail. It reports whether any two share a state.
func addTwins(meters []meter) (twins bool) {
	for i := 1; i < len(meters); i++ {
		for j := range meters[:i] {
			a, b := &meters[i], &meters[j]
			if a.id != b.id || a.limit.kind != b.limit.kind {
				continue
			}
			twins = true
			if a.dryRun == b.dryRun && !a.peek && !b.peek {
				a.asked = min(a.asked+b.cost, maxExact)
				b.asked = min(b.asked+a.cost, maxExact)
			}
		}
	}
	return twins
}

// decide decides all meters, charges none unless every enforced one admits its cost, and then charges the dry runs that
// fit as well.
func (d *deciding) decide() {
	d.admitted = true
	for i := range d.meters {
		t := &d.meters[i]
		t.open(d.now)
		if !t.dryRun {
			t.decide(d.now)
			d.admitted = d.admitted && t.retry == 0
		}
	}
	d.charge(false)
	for i := range d.meters {
		if t := &d.meters[i]; t.dryRun {
			d.reopen(t)
			t.decide(d.now)
		}
	}
	d.charge(true)
}

// reopen loads a state again that a twin may have changed.
func (d *deciding) reopen(t *meter) {
	if d.twins {
		t.open(d.now)
	}
}

// charge charges the dry runs or the others. A claim is charged if all its limits admit its cost.
func (d *deciding) charge(dryRun bool) {
	for i := 0; d.admitted && i < len(d.meters); {
		fits := true
		end := i
		for ; end < len(d.meters) && d.meters[end].claim == d.meters[i].claim; end++ {
			fits = fits && d.meters[end].retry == 0
		}
		for ; i < end; i++ {
			if t := &d.meters[i]; fits && t.dryRun == dryRun && !t.peek {
				d.reopen(t)
				d.settleIn(t)
				t.charge(d.now)
			}
		}
	}
}

// settleIn gives t a record to keep its state in: that of its pair, or the one it shares in a full store. A pair takes
// along what it shared until now.
func (d *deciding) settleIn(t *meter) {
	if t.record != nil && t.record.id == t.id {
		return
	}
	if t.shard.has(t.id) {
		t.record = t.shard.insert(t.id, t.limit.kind)
	} else if d.store.reserve(d.now, d.held, d.meters) {
		d.store.pairs.Add(-t.shard.sweep(d.now, sweepSome, d.meters))
		t.record = t.shard.insert(t.id, t.limit.kind)
	} else {
		if t.record == nil {
			t.record = t.shard.insert(t.common, t.limit.kind)
			t.shard.common++
		}
		return
	}
	t.queue = t.queue.clone(&t.shard.entries)
}

// report appends a result per meter.
func (d *deciding) report(claims []Claim, dst []Result) []Result {
	for i := range d.meters {
		t := &d.meters[i]
		d.reopen(t)
		u := t.report(d.now)
		dst = append(dst, Result{})
		r := &dst[len(dst)-1]
		r.Rule = ruleName(claims[t.claim].Rule)
		r.Limit = t.limit.limit
		r.Allowed = t.retry == 0
		r.Remaining = int(u.remaining)
		r.RetryAfter = t.retry
		r.RefillAfter = time.Duration(u.refill) * time.Microsecond
		r.ResetAfter = time.Duration(u.reset) * time.Microsecond
		r.DryRun = t.dryRun
	}
	return dst
}
