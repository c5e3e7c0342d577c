package client

import "time"

// readStructured reads RateLimit, and RateLimit-Policy for the limits in it.
func (rep *report) readStructured(clock *serverClock) {
	first := rep.n
	for _, line := range clock.header["Ratelimit"] {
		rep.readRateLimit(line, clock)
	}
	if rep.n == first {
		return
	}
	for _, line := range clock.header["Ratelimit-Policy"] {
		list := parser{rest: line}
		for m := (member{}); list.next(&m); {
			for i := first; i < rep.n; i++ {
				rep.states[i].readPolicy(&m)
			}
		}
	}
}

// readRateLimit reads one line of RateLimit. One that cannot be parsed is ignored as a whole: RFC 9651, section 4.2.
func (rep *report) readRateLimit(line string, clock *serverClock) {
	start := rep.n
	var limit, left, reset number // of revision 07: limit=100, remaining=50, reset=30
	list := parser{rest: line}
	for m := (member{}); list.next(&m); {
		switch {
		case m.r.ok:
			rep.addStructured(budgetName{family: rateLimit, name: m.name}, number{}, m.r, m.t, clock)
		case m.name == "limit":
			limit = m.value
		case m.name == "remaining":
			left = m.value
		case m.name == "reset":
			reset = m.value
		}
	}
	if left.ok {
		rep.addStructured(budgetName{family: rateLimit, line: -1}, limit, left, reset, clock)
	}
	if list.failed {
		rep.n = start
	}
}

// addStructured adds a state whose reset is in seconds from now.
func (rep *report) addStructured(name budgetName, limit, left, reset number, clock *serverClock) {
	s := state{name: name, limit: max(limit.n, 0), left: max(left.n, 0)}
	if reset.ok {
		s.wait, s.reset, s.hasReset = clock.in(reset.n)
	}
	rep.add(s)
}

// readPolicy adds limit, each and unit from the policy of the same name.
func (s *state) readPolicy(m *member) {
	if s.name.line < 0 || s.name.name != m.name {
		return
	}
	if m.q.ok && m.q.n > 0 {
		s.limit = m.q.n
		if m.w.ok && m.w.n > 0 {
			each := (m.w.n + m.q.n - 1) / m.q.n // rounded up, as t is
			s.each = time.Duration(min(each, maxSeconds)) * time.Second
		}
	}
	s.otherUnit = m.unit != "" && m.unit != "requests"
}
