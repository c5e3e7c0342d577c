package core

import "time"

// AtOnce returns a limit of n requests in flight: at most n are held at the same time, whatever their cost. See Claim.Hold.
//
// A request is in flight until the handler that the limiter wraps returns. http.TimeoutHandler returns at its timeout, while
// the handler in it goes on: mount the limiter inside, http.TimeoutHandler(limit(h), ..), or more than n handlers run.
func AtOnce(n int) Limit { return Limit{Rate: n, Algorithm: InFlight} }

// checkInFlight says what is wrong with a limit of requests in flight.
func (l Limit) checkInFlight() error {
	err := l.checkRate()
	if l.Period != 0 || l.Burst != 0 || l.Buckets != 0 || l.Ban != 0 {
		err = allOf(err, invalid("a limit of requests in flight has no period, burst, buckets or ban; want AtOnce(%d)", l.Rate))
	}
	return err
}

// checkBan says what is wrong with the ban of a limit whose other fields are right.
func (l Limit) checkBan() error {
	switch {
	case l.Ban == 0:
		return nil
	case l.Algorithm != TokenBucket:
		return invalid("ban must be 0 for a %v, which has none, got %v", l.Algorithm, l.Ban)
	case l.Rate == 0:
		return invalid("ban must be 0 for a rate of 0, which admits nothing, got %v", l.Ban)
	case l.Ban < 0 || l.Ban > maxPeriod || l.Ban%time.Microsecond != 0:
		return invalid("ban must be whole microseconds up to 10 years of 365 days, got %v", l.Ban)
	}
	if refill := (l.Period-1)/time.Duration(l.Rate) + 1; l.Ban <= refill {
		return invalid("ban must be longer than the %v that one request takes to refill, got %v", refill, l.Ban)
	}
	return nil
}
