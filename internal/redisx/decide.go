package redisx

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// givingBack bounds how long a part waits to give back what it was charged for nothing.
const givingBack = time.Second

// decide decides r, in one run of the script if the keys may share one, else in parts.
func (s *Store) decide(ctx context.Context, r *request) ([]part, error) {
	for how := spread(s.spread.Load()); ; {
		parts := r.split(how, &s.layout)
		err := s.decideParts(ctx, r, parts)
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

// decideParts decides all parts at once and gives back what one was charged though another denied.
func (s *Store) decideParts(ctx context.Context, r *request, parts []part) error {
	each(parts, func(p *part) { s.takePart(ctx, r, p) })
	if len(parts) > 1 {
		s.undo(ctx, r, parts)
	}
	for i := range parts {
		if parts[i].err != nil {
			return parts[i].err
		}
	}
	return nil
}

// each runs f for all parts at once and waits.
func each(parts []part, f func(*part)) {
	var wg sync.WaitGroup
	for i := range parts[1:] {
		wg.Go(func() { f(&parts[1+i]) })
	}
	f(&parts[0])
	wg.Wait()
}

func (s *Store) takePart(ctx context.Context, r *request, p *part) {
	args := append(make([]string, 0, 1+len(p.meters)), s.shift())
	s.runPart(ctx, p, &takeScript, p.texts(r, args, nil))
}

// refundPart gives back what was charged at an instant, apart from the meters for which skip reports true.
func (s *Store) refundPart(ctx context.Context, r *request, p *part, at int64, skip func(int) bool) {
	args := append(make([]string, 0, 2+len(p.meters)), s.shift(), strconv.FormatInt(at, 10))
	s.runPart(ctx, p, &refundScript, p.texts(r, args, skip))
}

func (s *Store) runPart(ctx context.Context, p *part, sc *script, args []string) {
	c := call{script: sc, keys: p.keys, args: args}
	reply, err := c.run(ctx, s.client)
	if want := 2 + valuesPerMeter*len(p.meters); err == nil && len(reply) != want {
		err = fmt.Errorf("the script returned %d numbers, want %d", len(reply), want)
	}
	if err != nil {
		p.err = err
		s.failed(err)
		return
	}
	p.at, p.values = reply[0], reply[2:]
	s.countRepairs(reply[1])
}

// undo gives back what a part was charged on its own but not as a part of the whole.
func (s *Store) undo(ctx context.Context, r *request, parts []part) {
	admitted := true
	for i := range parts {
		admitted = admitted && parts[i].admitted(r)
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
		if p.admitted(r) {
			s.undoPart(ctx, r, p, fits)
		}
	})
}

// undoPart gives back the claims in p that were charged there and do not fit. The results become those after that. If it
// fails, what was charged stays, which is stricter.
func (s *Store) undoPart(ctx context.Context, r *request, p *part, fits map[int]bool) {
	stays := func(i int) bool {
		claim := r.meters[i].claim
		return fits[claim] || !p.fits(r, claim)
	}
	if !slices.ContainsFunc(p.meters, func(i int) bool { return !stays(i) && !r.meters[i].peek }) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingBack)
	defer cancel()
	back := part{keys: p.keys, meters: p.meters}
	if s.refundPart(ctx, r, &back, p.at, stays); back.err == nil {
		p.values = back.values
	}
}
