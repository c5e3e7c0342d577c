package main

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
)

// check joins an error for each router that did not respond as limits demand. If the state is shared, other processes
// may use up a part of the limits.
func check(visits []visit, limits []core.Limit, shared bool) error {
	var errs []error
	for _, v := range visits {
		if err := v.check(limits, shared); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", v.router, err))
		}
	}
	return errors.Join(errs...)
}

func (v visit) check(limits []core.Limit, shared bool) error {
	if v.err != nil {
		return v.err
	}
	denial := v.last()
	least, most := admissible(limits, v.sending)
	switch admitted := v.admitted(); {
	case denial.status != http.StatusTooManyRequests:
		return fmt.Errorf("request %d was answered %s, want 200 or 429", len(v.replies), statusLine(denial.status))
	case admitted < least && !shared:
		return fmt.Errorf("it denied request %d, but %s admits %d", admitted+1, inWords(limits), least)
	case admitted > most:
		return fmt.Errorf("it admitted %d requests in %v, but %s admits %d", admitted, v.sending, inWords(limits), most)
	}
	for i, r := range v.replies {
		if n, ok := readNumbers(r); !ok {
			return fmt.Errorf("reply %d lacks rate limit headers", i+1)
		} else if i == len(v.replies)-1 && n.remaining != "0" {
			return fmt.Errorf("the denial shows %s remaining, want 0", n.remaining)
		}
	}
	return v.checkLater(least == 0, shared)
}

// checkLater checks the response to the request after the wait. A router that admits nothing announces no wait.
func (v visit) checkLater(admitsNothing, shared bool) error {
	announced := v.last().header.Get("Retry-After")
	switch {
	case admitsNothing && announced != "":
		return fmt.Errorf("it never admits a request, but announces Retry-After %q", announced)
	case !admitsNothing && v.last().wait() == 0:
		return fmt.Errorf("Retry-After is %q, want whole seconds", announced)
	case v.later == nil || shared && v.later.status == http.StatusTooManyRequests:
		return nil
	case v.later.status != http.StatusOK:
		return fmt.Errorf("the request after the announced wait of %v was answered %s, want 200", v.last().wait(), statusLine(v.later.status))
	}
	return nil
}

// admissible returns the fewest and the most requests that fresh limits admit before they deny one within span.
func admissible(limits []core.Limit, span time.Duration) (least, most int) {
	least, most = math.MaxInt, math.MaxInt
	for _, l := range limits {
		if l.Algorithm == core.InFlight && l.Capacity() > 0 {
			continue // the demo sends one request at a time to each router
		}
		least = min(least, l.Capacity())
		most = min(most, within(l, span))
	}
	return least, most
}

// within returns the most requests that l admits within span, according to the documentation of its algorithm.
func within(l core.Limit, span time.Duration) int {
	periods := float64(span) / float64(l.Period)
	switch {
	case l.Calendar.Unit != 0: // span is shorter than a day
		return 2 * l.Rate
	case l.Algorithm == core.TokenBucket:
		return l.Capacity() + int(float64(l.Rate)*periods)
	case l.Algorithm == core.FixedWindow:
		return l.Rate * (int(periods) + 2)
	default:
		return l.Rate * (int(periods) + 1)
	}
}
