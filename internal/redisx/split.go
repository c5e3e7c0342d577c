package redisx

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/deadline"
)

// A routing says which keys one run of a script may use.
type routing uint32

const (
	anyKeys    routing = iota // all: one server, or the master of a Sentinel
	byIdentity                // keys of one identity, which share a slot of a Redis Cluster and a shard of a Ring
	byKey                     // one pair's: a slot that is migrating
)

// split sets the route of j and, if its keys have several, its parts. The parts share the ops of j, which split puts
// into the order of their routes. A job whose route may have any keys needs no split. On a Cluster, a route is not a slot: there are
// so many that requests of two identities seldom share one.
func (how routing) split(j *job) {
	routeOf := func(o op) string {
		if how == byIdentity {
			return j.layout.tagOf(o.key)
		}
		return o.key
	}
	j.parts, j.route = nil, routeOf(j.ops[0])
	if !slices.ContainsFunc(j.ops, func(o op) bool { return routeOf(o) != j.route }) {
		return
	}
	slices.SortStableFunc(j.ops, func(a, b op) int { return strings.Compare(routeOf(a), routeOf(b)) })
	for i := range j.ops {
		route := routeOf(j.ops[i])
		if n := len(j.parts); n == 0 || j.parts[n-1].route != route {
			j.parts = append(j.parts, &job{ops: j.ops[i:i], owed: j.owed, layout: j.layout, route: route})
		}
		p := j.parts[len(j.parts)-1]
		p.ops = p.ops[:len(p.ops)+1]
	}
}

// decideParts does the parts of j, each of which is atomic, at the same time. If one of them denies, decideParts refunds what
// the others were charged. Until then, other requests may be denied because of these charges. So that a client that is
// denied anyway cannot keep another identity charged, decideParts first peeks if a pair was denied recently, and charges
// nothing if a part would still deny. A take with a ban is held until all parts have admitted their ops, because a refund ends no ban.
func (s *decider) decideParts(ctx context.Context, j *job) error {
	j.begun = time.Now()
	if s.wasDenied(j.ops, j.begun, 0) {
		if err := s.doParts(ctx, j.parts, true); err != nil || !allAdmitted(j.parts) {
			return err
		}
	}
	for i := range j.ops {
		if o := &j.ops[i]; o.does == take && slices.ContainsFunc(o.limits, func(l algorithm.Limit) bool { return l.Ban > 0 }) {
			o.does, o.bans = hold, true
		}
	}
	return cmp.Or(s.doParts(ctx, j.parts, false), s.settleParts(ctx, j.parts))
}

// doParts does parts at the same time, and records the pairs that denied one. If peek is set, it charges nothing.
func (s *decider) doParts(ctx context.Context, parts []*job, peek bool) error {
	errs := each(len(parts), func(i int) error {
		p := parts[i]
		p.prepare(peek)
		p.err = errLost // if a hook of the client ends this goroutine
		if p.err = s.queues.do(ctx, p); p.err != nil {
			return p.err
		}
		s.noteDenied(p.ops, time.Now())
		for n := range p.ops {
			if o := &p.ops[n]; !o.isDecided() { // unused requests of a lease, which are returned once
				o.final = o.cost
			}
		}
		return nil
	})
	// The error of a part that may have been charged comes first: after it, the parts must not be tried again.
	other := slices.IndexFunc(errs, func(err error) bool { return err != nil && !isMigrating(err) })
	return cmp.Or(errs[max(other, 0)], cmp.Or(errs...))
}

func allAdmitted(parts []*job) bool {
	return !slices.ContainsFunc(parts, func(p *job) bool { return !p.admitted() })
}

// admitted reports whether j by itself was charged.
func (j *job) admitted() bool {
	return j.err == nil && !slices.ContainsFunc(j.ops, func(o op) bool { return !o.dryRun && !o.fits() })
}

// isCharged reports whether o was charged or held by a job that was admitted.
func (o *op) isCharged() bool { return o.isDecided() && o.does != peek && o.fits() }

// refundTimeout bounds how long the refund of a denied request may take.
const refundTimeout = time.Second

// settleParts refunds what parts were charged if one of them denies, or else charges the takes with a ban, and updates what remains. If
// that fails, the charge stays, which is stricter. It returns breaker.ErrTooMany if ctx ends first. The calls go on then.
func (s *decider) settleParts(ctx context.Context, parts []*job) error {
	admitted := allAdmitted(parts)
	charged := slices.DeleteFunc(slices.Clone(parts), func(p *job) bool {
		return !p.admitted() || !slices.ContainsFunc(p.ops, func(o op) bool { return o.isCharged() && (o.bans || !admitted) })
	})
	if len(charged) == 0 {
		return nil
	}
	err := s.server.within(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
		defer cancel()
		each(len(charged), func(i int) error {
			p := charged[i]
			if back := s.settlePart(deadline.Context{Context: ctx}, p, admitted); back.err == nil {
				for n := range p.usages {
					if u := &p.usages[n]; admitted {
						u.Usage = back.usages[n].Usage
					} else {
						*u = back.usages[n]
					}
				}
				for n := range p.ops {
					if o := &p.ops[n]; o.bans && admitted {
						o.at = back.at
					}
				}
				p.held = p.held || back.held && !admitted
			}
			return nil
		})
		return nil
	})
	if err != nil {
		return breaker.ErrTooMany
	}
	return nil
}

// settlePart reverses what j has charged, or charges its takes with a ban, which it holds, and returns a job with what that
// leaves. If a request may wait, each limit is refunded by itself, because each has a turn of its own.
func (s *decider) settlePart(ctx context.Context, j *job, admitted bool) *job {
	decided := j.ops[:len(j.ops)-j.settled]
	back := &job{owed: true, layout: j.layout, route: j.route, ops: slices.Clone(decided)}
	for _, o := range decided {
		one := op{does: adjust, key: o.key, limits: o.limits, cost: o.cost, at: o.at}
		switch {
		case !o.isCharged() || admitted && !o.bans:
		case o.does == hold:
			if one.does = release; admitted {
				one.final = o.cost
			}
			back.ops = append(back.ops, one)
		case o.maxWait == 0:
			back.ops = append(back.ops, one)
		default:
			for n := range o.limits {
				one.limits, one.turn = o.limits[n:n+1], 1+o.usages[n].wait
				back.ops = append(back.ops, one)
			}
		}
	}
	back.prepare(true)
	back.err = s.queues.do(ctx, back)
	return back
}

const (
	// peekFor is how long after the denial of a pair requests peek first.
	peekFor = 10 * time.Second

	// lasting is how long ago the first denial of a pair must have been for another denial to count as lasting, because
	// a pair may be denied for a cost that is about to be refunded to another request.
	lasting = 100 * time.Millisecond
)

// noteDenied records the pairs that denied an op, and when each did so first. Only stores whose requests may have parts call it.
func (s *decider) noteDenied(ops []op, now time.Time) {
	for i := range ops {
		if o := &ops[i]; !o.dryRun && !o.fits() {
			hash, at := maphash.String(seed, o.key), now.Sub(s.server.begun)
			if s.denied.Age(hash, at) > peekFor/2 {
				s.denied.Note(hash, at)
			}
		}
	}
}

// wasDenied reports whether the pair of one of ops was denied recently, but at least ago before now.
func (s *decider) wasDenied(ops []op, now time.Time, ago time.Duration) bool {
	for i := range ops {
		if age := s.denied.Age(maphash.String(seed, ops[i].key), now.Sub(s.server.begun)); ago <= age && age < peekFor {
			return true
		}
	}
	return false
}
