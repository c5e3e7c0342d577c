package client

import "net/http"

// fieldNames are the names of the fields, in canonical form, by family.
var fieldNames = [...]struct{ limit, remaining, reset, resource string }{
	xRateLimit:      {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Resource"},
	rateLimitFields: {"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", ""},
}

// readFields reads the fields of a family that have one number per line. Each line is a limit: a proxy with its own
// limit adds a line to the lines of the server behind it.
func (rep *report) readFields(clock *serverClock, f family) {
	names := &fieldNames[f]
	for line, text := range clock.header[names.remaining] {
		left, ok := leadingInteger(text)
		if left < 0 {
			ok = rep.status == http.StatusTooManyRequests // elsewhere it may mean that there is no limit
		}
		if !ok {
			continue
		}
		s := state{left: max(left, 0)}
		s.name = budgetName{family: f, line: int8(min(line, maxStates)), name: lineOf(clock.header[names.resource], line)}
		if limit, ok := leadingInteger(lineOf(clock.header[names.limit], line)); ok {
			s.limit = max(limit, 0)
		}
		s.wait, s.reset, s.hasReset = clock.until(lineOf(clock.header[names.reset], line))
		rep.add(s)
	}
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
