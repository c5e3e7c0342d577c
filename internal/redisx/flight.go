package redisx

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// fly has the server decide the parts of f. It goes on after the deadline of f if the client does.
func (s *Store) fly(f *flight) {
	defer s.land(f)
	ctx := context.WithoutCancel(f.ctx)
	if !f.deadline.IsZero() {
		limited, cancel := context.WithDeadline(ctx, f.deadline)
		defer cancel()
		ctx = limited
	}
	err := s.takeParts(ctx, f.parts)
	if len(f.parts) == 1 || !hasCode(err, "TRYAGAIN") && !hasCode(err, "CROSSSLOT") {
		return
	}
	if hasCode(err, "CROSSSLOT") { // a wrapped client of a Redis Cluster
		s.spread.CompareAndSwap(uint32(together), uint32(bySlot))
	}
	each(f.parts, func(p **part) { _ = s.takeParts(ctx, []*part{*p}) })
}

// takeParts has one run of the script decide parts. It sets what each was replied, or the error for all.
func (s *Store) takeParts(ctx context.Context, parts []*part) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
		for _, p := range parts {
			p.err = err
		}
		s.failed(err)
	}()
	reply, err := takeCall(s.shift(), parts).run(ctx, s.client)
	if err != nil {
		return err
	}
	return s.deal(reply, parts)
}

// takeCall returns the call that decides parts, those of one plan next to each other.
func takeCall(shift string, parts []*part) *call {
	byPlan := func(a, b *part) int { return strings.Compare(a.plan, b.plan) }
	if !slices.IsSortedFunc(parts, byPlan) { // mostly there is one
		slices.SortStableFunc(parts, byPlan)
	}
	c := newCall(&takeScript, len(parts)+4)
	for _, p := range parts {
		c.addKeys(p.keys)
	}
	c.add(shift)
	for i := 0; i < len(parts); {
		first := i
		for i < len(parts) && parts[i].plan == parts[first].plan {
			i++
		}
		c.add(parts[first].plan)
		c.add(i - first)
	}
	return c
}

// deal gives each part what the reply of a script says of it.
func (s *Store) deal(reply []int64, parts []*part) error {
	all := reply
	if len(reply) < 2 {
		return fmt.Errorf("the script replied %d", all)
	}
	s.countRepairs(reply[1])
	at, reply := reply[0], reply[2:]
	for _, p := range parts {
		n := repliedTo(reply, len(p.meters))
		p.at, p.reply, reply = at, reply[:n], reply[n:]
	}
	if len(reply) > 0 {
		return fmt.Errorf("the script replied %d, which is too much", all)
	}
	return nil
}
