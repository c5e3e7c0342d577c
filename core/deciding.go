package core

import (
	"slices"
	"time"
)

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
}

// decide decides all meters, charges none unless every enforced one admits its cost, and then charges the dry runs that
// fit as well.
func (d *deciding) decide() {
	for i := range d.meters {
		d.meters[i].find()
	}
	d.sumUp()
	d.name()
	for i := range d.meters {
		d.meters[i].load(d.now)
	}
	d.admitted = d.admit()
	if d.admitted && d.place() {
		d.admitted = d.admit()
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

// name has each meter name its rate before any is decided, whatever becomes of the request.
func (d *deciding) name() {
	for i := range d.meters {
		t := &d.meters[i]
		if t.record != nil && t.record.at > d.now {
			t.load(d.now)
		}
		t.name(d.now)
	}
}

// sumUp adds up what the meters of one state ask for, apart from peeks, and apart for dry runs, which must not make
// others fail. It reports whether that is news.
func (d *deciding) sumUp() (news bool) {
	for i := range d.meters {
		a, asked := &d.meters[i], d.meters[i].cost
		for j := range d.meters {
			b := &d.meters[j]
			if i == j || !a.shares(b) {
				continue
			}
			d.twins = true
			if a.dryRun == b.dryRun && !a.peek && !b.peek {
				asked = min(asked+b.cost, maxExact)
			}
		}
		news = news || asked != a.asked
		a.asked = asked
	}
	return news
}

// shares reports whether a and b are about one state: that of one pair, or that of several in a full store.
func (a *meter) shares(b *meter) bool {
	return a.limit.kind == b.limit.kind && (a.id == b.id || a.record != nil && a.record == b.record)
}

// admit decides the enforced meters and reports whether all admit what they are asked.
func (d *deciding) admit() bool {
	admitted := true
	for i := range d.meters {
		if t := &d.meters[i]; !t.dryRun {
			t.decide(d.now)
			admitted = admitted && t.retry == 0
		}
	}
	return admitted
}

// reopen loads a state again that a twin may have changed.
func (d *deciding) reopen(t *meter) {
	if d.twins {
		t.open(d.now)
	}
}

// place gives each meter that may be charged a record to keep its state in. In a full store some may turn out to share
// one; then it reports true, and they are to be decided again.
func (d *deciding) place() (again bool) {
	placed := false
	for i := range d.meters {
		if t := &d.meters[i]; !t.peek && !t.own {
			t.find() // a twin may have been placed, and others been moved
			d.settleIn(t)
			placed = true
		}
	}
	for i := 0; placed && i < len(d.meters); i++ {
		d.meters[i].open(d.now)
	}
	return placed && len(d.meters) > 1 && d.sumUp()
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
				t.charge(d.now)
			}
		}
	}
}

// settleIn gives t a record of its pair or, in a full store, the one it shares. A pair takes along what it shared until
// now.
func (d *deciding) settleIn(t *meter) {
	var shared record
	if t.record != nil {
		shared = *t.record
	}
	switch {
	case t.own:
		return
	case t.shard.has(t.id):
	case d.store.reserve(d.now, d.held, d.meters):
		d.store.pairs.Add(-t.shard.sweep(d.now-lately, sweepSome, d.meters))
	default:
		if t.record == nil {
			t.shard.insert(t.common, t.limit.kind)
			t.shard.common++
		}
		return
	}
	own := t.shard.insert(t.id, t.limit.kind)
	if t.record != nil {
		own.take(shared, &t.shard.entries)
	}
}

// report appends a result per meter.
func (d *deciding) report(claims []Claim, dst []Result) []Result {
	n, at := len(dst), time.UnixMicro(d.now)
	dst = slices.Grow(dst, len(d.meters))[:n+len(d.meters)]
	for i := range d.meters {
		t := &d.meters[i]
		d.reopen(t)
		dst[n+i].fill(&claims[t.claim], t.limit, t.retry, t.report(d.now), at)
	}
	return dst
}
