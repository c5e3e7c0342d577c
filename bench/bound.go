package main

import (
	"fmt"
	"slices"
)

// A bound is one requirement on a row.
type bound func(o *outcome) check

// A check is the result of a bound: the requirement, the measurement, and whether it holds.
type check struct {
	bound, got string
	holds      bool
}

// spillgate is the name of the entry of Spillgate in most rows.
const spillgate = "spillgate"

// toBest requires that Spillgate takes at most factor times what the fastest peer takes.
func toBest(factor float64) bound {
	return func(o *outcome) check {
		best, _ := o.best()
		v := atMost(spillgate, best.name, factor)(o)
		v.bound = fmt.Sprintf("at most %.2f× the fastest peer", factor)
		return v
	}
}

// atMost requires that the value of entry a is at most factor times b's number.
func atMost(a, b string, factor float64) bound {
	return func(o *outcome) check {
		ratio := o.get(a)[0] / o.get(b)[0]
		return check{
			bound: fmt.Sprintf("%s: at most %.2f× %s", a, factor, b),
			got:   fmt.Sprintf("%.2f× %s", ratio, b),
			holds: ratio <= factor,
		}
	}
}

// atMostIn requires that the number of entry a in a column is at most factor times b's number.
func atMostIn(column, a, b string, factor float64) bound {
	return func(o *outcome) check {
		i := slices.Index(o.row.unit.columns, column)
		ratio := o.get(a)[i] / o.get(b)[i]
		return check{
			bound: fmt.Sprintf("%s: at most %.2f× %s in %s", a, factor, b, column),
			got:   fmt.Sprintf("%.2f× %s", ratio, b),
			holds: ratio <= factor,
		}
	}
}

// atLeast requires that the value of entry a is at least factor times the value of b.
func atLeast(a, b string, factor float64) bound {
	return func(o *outcome) check {
		ratio := o.get(a)[0] / o.get(b)[0]
		return check{
			bound: fmt.Sprintf("%s: at least %.2f× %s", a, factor, b),
			got:   fmt.Sprintf("%.2f×", ratio),
			holds: ratio >= factor,
		}
	}
}

// allocs requires that Spillgate makes at most n allocations per decision. A hundredth more is allowed for allocations of
// the runtime.
func allocs(n float64) bound {
	return func(o *outcome) check {
		got := o.get(spillgate)[1]
		return check{bound: fmt.Sprintf("at most %.0f allocations", n), got: fmt.Sprintf("%.2f", got), holds: got < n+0.01}
	}
}

// allocBytes requires that Spillgate allocates at most n bytes per decision.
func allocBytes(n float64) bound {
	return func(o *outcome) check { return below(o, slices.Index(o.row.unit.columns, "bytes"), n) }
}

// valueBelow and extraBelow require that the numbers of Spillgate are at most n.
func valueBelow(n float64) bound {
	return func(o *outcome) check { return below(o, 0, n) }
}

func extraBelow(n float64) bound {
	return func(o *outcome) check { return below(o, 1, n) }
}

func below(o *outcome, column int, n float64) check {
	got := o.get(spillgate)[column]
	return check{bound: fmt.Sprintf("at most %.0f %s", n, o.row.unit.columns[column]), got: fmt.Sprintf("%.1f", got), holds: got <= n}
}

// tailBelow requires that the p99 of Spillgate is not above the p99 of a peer.
func tailBelow(name string) bound {
	return func(o *outcome) check {
		own, other := o.get(spillgate)[1], o.get(name)[1]
		return check{
			bound: "p99 not above the p99 of " + name,
			got:   fmt.Sprintf("%.0f against %.0f µs", own, other),
			holds: own <= other,
		}
	}
}

// overhead requires that the time that a limiter adds to a framework is at most factor times the time that the stdlib
// adapter adds to a bare handler.
func overhead(framework string, factor float64) bound {
	return func(o *outcome) check {
		added := func(name string) float64 { return o.get(spillgate + ", " + name)[0] - o.get("bare " + name)[0] }
		mine, model := added(framework), added("net/http")
		return check{
			bound: fmt.Sprintf("%s: at most %.2f× what net/http adds", framework, factor),
			got:   fmt.Sprintf("%.0f against %.0f ns, %.2f×", mine, model, mine/model),
			holds: mine <= factor*model,
		}
	}
}

// adds requires that entry a takes at most n more than b.
func adds(a, b string, n float64) bound {
	return func(o *outcome) check {
		more := o.get(a)[0] - o.get(b)[0]
		return check{
			bound: fmt.Sprintf("%s: at most %s more %s than %s", a, number(n), o.row.unit.columns[0], b),
			got:   number(more) + " more",
			holds: more <= n,
		}
	}
}

// addsAllocs requires that entry a makes at most n allocations more than b, not counting the runtime's.
func addsAllocs(a, b string, n float64) bound {
	return func(o *outcome) check {
		more := o.get(a)[1] - o.get(b)[1]
		return check{
			bound: fmt.Sprintf("%s: at most %.0f more allocations than %s", a, n, b),
			got:   fmt.Sprintf("%.2f more", more),
			holds: more < n+0.01,
		}
	}
}
