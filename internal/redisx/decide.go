package redisx

import (
	"context"
	"slices"
	"sync"
	"time"
)

// givingBack bounds how long a part waits to give back what it was charged for nothing.
const givingBack = time.Second

// decide decides r, in one run of the script if the keys may share one, else in parts.
func (s *Store) decide(ctx context.Context, r *request) (parts []part, err error) {
	for how := spread(s.spread.Load()); ; {
		if parts = s.split(r, how); len(parts) == 1 {
			err = s.travel(ctx, &parts[0], false)
		} else {
			err = s.decideApart(ctx, parts)
		}
		switch {
		case hasCode(err, "CROSSSLOT") && how == together:
			how = bySlot
			s.spread.Store(uint32(how)) // a wrapped client of a Redis Cluster
		case hasCode(err, "TRYAGAIN") && how != byKey && len(r.keys) > 1:
			how = byKey
		default:
			return parts, err
		}
	}
}

// decideApart is decideParts for who waits no longer than ctx.
func (s *Store) decideApart(ctx context.Context, parts []part) error {
	_, err := within(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.decideParts(ctx, parts) })
	return err
}

// decideParts decides all parts at once and gives back what one was charged though another denied.
func (s *Store) decideParts(ctx context.Context, parts []part) error {
	each(parts, func(p *part) { p.err = s.travel(ctx, p, true) })
	s.undo(ctx, parts)
	for i := range parts {
		if parts[i].err != nil {
			return parts[i].err
		}
	}
	return nil
}

// each runs f for all of some at once and waits.
func each[T any](some []T, f func(*T)) {
	var wg sync.WaitGroup
	for i := range some[1:] {
		wg.Go(func() { f(&some[1+i]) })
	}
	f(&some[0])
	wg.Wait()
}

// refundPart gives back what was charged at an instant, apart from the meters for which skip reports true.
func (s *Store) refundPart(ctx context.Context, p *part, at int64, skip func(int) bool) {
	c := newCall(&refundScript, len(p.keys)+3)
	c.addKeys(p.keys)
	c.add(s.shift())
	c.add(at)
	c.add(string(p.appendPlan(nil, skip)))
	reply, err := c.run(ctx, s.client)
	if err == nil {
		err = s.deal(reply, []*part{p})
	}
	if err == nil {
		err = p.read()
	}
	p.err = err
	s.failed(err)
}

// undo gives back what a part was charged on its own but not as a part of the whole.
func (s *Store) undo(ctx context.Context, parts []part) {
	r := parts[0].request
	admitted := true
	for i := range parts {
		admitted = admitted && parts[i].admitted()
	}
	fits := make(map[int]bool)
	for i := range r.meters {
		fits[r.meters[i].claim] = admitted
	}
	for i := range parts {
		for n, m := range parts[i].meters {
			if parts[i].err == nil && parts[i].retry(n) != 0 {
				fits[r.meters[m].claim] = false
			}
		}
	}
	each(parts, func(p *part) {
		if p.admitted() {
			s.undoPart(ctx, p, fits)
		}
	})
}

// undoPart gives back the claims in p that were charged there and do not fit. The results become those after that. If it
// fails, what was charged stays, which is stricter.
func (s *Store) undoPart(ctx context.Context, p *part, fits map[int]bool) {
	r := p.request
	stays := func(i int) bool {
		claim := r.meters[i].claim
		return fits[claim] || !p.fits(claim)
	}
	if !slices.ContainsFunc(p.meters, func(i int) bool { return !stays(i) && !r.meters[i].peek }) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingBack)
	defer cancel()
	back := part{request: r, keys: p.keys, meters: p.meters}
	if s.refundPart(ctx, &back, p.at, stays); back.err == nil {
		p.usages = back.usages
	}
}
