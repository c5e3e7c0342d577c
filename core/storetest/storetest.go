// Package storetest states the contract of a core.Store as tests that any store can run.
//
//	func TestMyStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{New: func(*testing.T) core.Store { return new(MyStore) }})
//	}
package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A Harness makes stores to test.
type Harness struct {
	// New returns a store in which no key has been seen and whose clock shows the current time. It is called each time a row runs
	// and may use Cleanup of its argument.
	New func(*testing.T) core.Store

	// Advance lets the time of the store's clock pass: by setting the clock, if the test can, or else time.Sleep. All calls of a run
	// together ask for less than 20m without Quick: a hold ends after a minute. If it is nil, each row runs in a synctest bubble of its
	// own, where time.Sleep takes no time; that suits stores which live in this process and read its clock.
	Advance func(time.Duration)

	// Quick says that Advance takes no time itself. Then a row may let half a day pass, to see how a calendar window ends.
	Quick bool

	// Apart says that the store decides claims of different keys apart and gives back what it took in vain, as on a Redis
	// Cluster: of several requests at once, some may be denied for what is about to be given back.
	Apart bool

	// Without names rows that the store does not fulfil yet. They are left out.
	Without []string

	// Hang makes what the store of the last New waits for, such as a server, stop answering until the test ends. A timeout
	// of the client should be longer than 20s. Hang is nil for a store that waits for nothing.
	Hang func(*testing.T)
}

type row struct {
	name string
	run  func(*suite)
}

// forEach returns a row's run, which runs for each of limits.
func forEach(limits []string, run func(s *suite, limit string)) func(*suite) {
	return func(s *suite) {
		for _, limit := range limits {
			run(s, limit)
		}
	}
}

// Run runs one subtest for each rule of the contract; its name says the rule. They run one after the other. A store with a real clock
// may be slow: the instants of its results say how late each call was, and a row expects only what a limit guarantees for requests
// that are so late. On a clock that stands still between two calls of Advance, it expects exact results.
func Run(t *testing.T, h Harness) {
	t.Helper()
	groups := [][]row{timelineRows(), claimRows, refundRows, holdRows, endRows, banRows, calendarRows, grantRows, waitRows, keyRows, resultRows, concurrencyRows, contextRows}
	for _, group := range groups {
		for _, r := range group {
			if slices.Contains(h.Without, r.name) {
				continue
			}
			t.Run(r.name, func(t *testing.T) {
				if h.Advance != nil {
					h.run(t, r, h.Advance)
					return
				}
				synctest.Test(t, func(t *testing.T) { h.run(t, r, time.Sleep) })
			})
		}
	}
}

func (h Harness) run(t *testing.T, r row, sleep func(time.Duration)) {
	r.run(&suite{T: t, store: h.New(t), sleep: sleep, quick: h.Quick || h.Advance == nil, bubble: h.Advance == nil, apart: h.Apart, hang: h.Hang})
}

// A suite is one row on one store.
type suite struct {
	*testing.T
	store core.Store
	sleep func(time.Duration)
	quick bool // sleep takes no real time
	apart bool
	hang  func(*testing.T)

	bubble bool // calls take no time

	begun  time.Time // by the store's clock
	last   time.Time // when the last take was decided
	passed time.Duration
	slack  time.Duration // the latest that a take has been
}

// advance lets time pass until it is d later, or would be if the machine were never late.
func (s *suite) advance(d time.Duration) {
	if rest := d - max(0, s.late()); rest > 0 {
		s.sleep(rest)
	}
	s.passed += d
}

// wait lets d pass from now.
func (s *suite) wait(d time.Duration) {
	if d > 0 {
		s.sleep(d)
		s.passed += d
	}
}

// late returns how much more time has passed, by the store's clock, than advance and wait let pass.
func (s *suite) late() time.Duration { return s.last.Sub(s.begun) - s.passed }

// sure reports whether takes were so punctual that a result of l must be as a row says: half of the time that one more request takes to
// fit, or a twentieth of the period of a window. A row keeps this distance from the instants at which the result changes.
func (s *suite) sure(l core.Limit) bool {
	margin := l.Period / 20
	switch {
	case l.Period == 0: // in flight, or by a calendar
		margin = minute
	case l.Algorithm == core.TokenBucket:
		margin = l.Period / time.Duration(max(2*l.Rate, 1))
	}
	return s.slack <= margin
}

// near compares a wait with the one that was due had no take been late.
func (s *suite) near(got, want time.Duration) {
	s.Helper()
	slack := (s.slack + time.Microsecond - 1).Truncate(time.Microsecond) // a store may count in microseconds
	off := (got - want).Abs()
	expect.True(s, off <= slack && (got == never) == (want == never), "wait of %v, want %v, give or take %v", got, want, slack)
}

// align waits for the next multiple of period since the Unix epoch, and counts time from there.
func (s *suite) align(period time.Duration) {
	s.Helper()
	now := s.now()
	into := time.Duration(now.UnixMicro()%period.Microseconds()) * time.Microsecond
	if into > 0 {
		s.sleep(period - into)
		into -= period
	}
	s.begun, s.passed, s.slack = now.Add(-into), 0, 0
}

func (s *suite) now() time.Time {
	s.Helper()
	return s.take(peek(claim("clock", "1/s", 1)))[0].At
}

// take takes claims and checks what holds for all results. It fails the row on an error.
func (s *suite) take(claims ...core.Claim) []core.Result {
	s.Helper()
	results, err := s.store.Take(context.Background(), claims, nil)
	if err != nil {
		s.Fatalf("take %v: %v", claims, err)
	}
	last := s.last
	for _, r := range results {
		expect.True(s, !r.At.Before(last), "decided at %v, after a decision at %v", r.At, last)
		if r.At.After(s.last) {
			s.last = r.At
		}
	}
	if s.begun.IsZero() {
		s.begun = s.last
	}
	s.slack = max(s.slack, s.late())
	s.checkAll(claims, results)
	return results
}

// charge takes claims and returns the settlements that give them back.
func (s *suite) charge(claims ...core.Claim) []core.Settlement {
	s.Helper()
	return settled(claims, s.take(claims...))
}

// settled returns the settlements that give back claims, decided with these results.
func settled(claims []core.Claim, results []core.Result) []core.Settlement {
	var settlements []core.Settlement
	for _, c := range claims {
		s := core.Settlement{
			Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: results[0].At, Cost: c.Cost, DryRun: c.DryRun, Held: c.Hold, MaxWait: c.MaxWait,
		}
		if c.MaxWait == 0 {
			settlements = append(settlements, s)
		} else {
			for i := range c.Limits { // each has a turn of its own
				s.Limits, s.Wait = c.Limits[i:i+1], results[i].Wait
				settlements = append(settlements, s)
			}
		}
		results = results[len(c.Limits):]
	}
	return settlements
}

// expect takes claims and compares results with words such as "yes 3" or "no 0": whether allowed, and what remains, as
// far as that is sure.
func (s *suite) expect(want []string, claims ...core.Claim) {
	s.Helper()
	for i, r := range s.take(claims...) {
		words := fmt.Sprintf("no %d", r.Remaining)
		if r.Allowed {
			words = fmt.Sprintf("yes %d", r.Remaining)
		}
		if i < len(want) && words != want[i] && s.sure(r.Limit) {
			s.Errorf("result %d of %v: %s, want %s", i, claims, words, want[i])
		}
	}
}

func (s *suite) settle(settlements ...core.Settlement) {
	s.Helper()
	if err := s.store.Settle(context.Background(), settlements); err != nil {
		s.Fatalf("settle %v: %v", settlements, err)
	}
}

func (s *suite) reset(rule, key string) {
	s.Helper()
	if err := s.store.Reset(context.Background(), []core.Pair{{Rule: rule, Key: key}}); err != nil {
		s.Fatalf("reset %q of %q: %v", key, rule, err)
	}
}

func claim(key, limits string, cost int) core.Claim {
	return core.Claim{Rule: "rule", Key: key, Limits: core.MustParseLimits(limits), Cost: cost}
}

func peek(c core.Claim) core.Claim {
	c.Peek = true
	return c
}

func dryRun(c core.Claim) core.Claim {
	c.DryRun = true
	return c
}

func of(rule string, c core.Claim) core.Claim {
	c.Rule = rule
	return c
}

// words returns results for expect to compare with.
func words(want ...string) []string { return want }

// checkAll checks what must hold for the results of any claims: one per limit of each, in order, that do not contradict themselves.
func (s *suite) checkAll(claims []core.Claim, results []core.Result) {
	s.Helper()
	i := 0
	for _, c := range claims {
		for _, l := range c.Limits {
			must.True(s, i != len(results), "only %d results for %v", len(results), claims)
			r := results[i]
			if rule := ruleName(c); r.Rule != rule || r.Limit != l || r.DryRun != c.DryRun {
				s.Errorf("result %d is of rule %q, limit %v, dry run %t; want %q, %v, %t", i, r.Rule, r.Limit, r.DryRun, rule, l, c.DryRun)
			}
			s.check(r)
			if r.Wait < 0 || r.Wait > c.MaxWait || r.Wait > 0 && !r.Allowed || r.Wait%time.Microsecond != 0 {
				s.Errorf("the wait is not one of an admitted request, up to %v: %+v", c.MaxWait, r)
			}
			i++
		}
	}
	expect.True(s, i >= len(results), "%d results for %d limits", len(results), i)
}

func ruleName(c core.Claim) string {
	if c.Rule == "" {
		return "default"
	}
	return c.Rule
}

// check checks that the fields of r agree with each other.
func (s *suite) check(r core.Result) {
	s.Helper()
	capacity := r.Limit.Capacity()
	missing := r.Remaining < r.Quota() || r.Remaining == 0 && capacity > 0
	switch {
	case r.Allowed != (r.RetryAfter == 0):
		s.Errorf("allowed exactly if there is nothing to wait for: %+v", r)
	case r.RetryAfter < 0:
		s.Errorf("a wait is negative: %+v", r)
	case r.Over < 0 || r.Quota() < 0 || r.Over > 0 && r.Remaining > 0:
		s.Errorf("over is not what was used beyond the capacity and what is granted: %+v", r)
	case r.Remaining < 0 || r.Remaining > r.Quota():
		s.Errorf("remaining is not between 0 and the capacity with what is granted: %+v", r)
	case (r.RefillAfter > 0) != missing || (r.ResetAfter > 0) != missing:
		s.Errorf("there is a refill and a reset exactly if something is missing: %+v", r)
	case r.RefillAfter > r.ResetAfter || r.RetryAfter > r.ResetAfter && r.RetryAfter != core.Never && r.Granted == 0:
		s.Errorf("after the reset everything is there: %+v", r)
	}
	for _, wait := range []time.Duration{r.RetryAfter, r.RefillAfter, r.ResetAfter} {
		expect.True(s, wait%time.Microsecond == 0 || wait == core.Never, "waits are whole microseconds: %+v", r)
	}
}

var resultRows = []row{
	{"the waits of a token bucket are long enough", func(s *suite) { s.keepPromises("4/s") }},
	{"the waits of a fixed window are long enough", func(s *suite) { s.keepPromises("4/s;fixed-window") }},
	{"the waits of a sliding window are long enough", func(s *suite) { s.keepPromises("4/s;sliding-window;buckets=5") }},
	{"the waits of a sliding log are long enough", func(s *suite) { s.keepPromises("4/s;sliding-log") }},
	{"a burst is available again after its reset", func(s *suite) {
		c := claim("key", "10/s;burst=12", 12)
		s.wait(s.take(c)[0].ResetAfter)
		s.expect(words("yes 0"), c)
	}},
	{"a limit that allows is reported as allowed if another limit denies", func(s *suite) {
		s.expect(words("no 1", "yes 5"), claim("key", "1/d, 5/2d", 2))
	}},
	{"a wait of centuries is as long as a duration allows, not negative", func(s *suite) {
		c := core.Claim{Key: "key", Limits: []core.Limit{core.Every(1, 87600*time.Hour).WithBurst(1_000_000)}, Cost: 1_000_000}
		s.take(c)
		r := s.take(c)[0]
		expect.True(s, !r.Allowed && r.RetryAfter >= 285*8760*time.Hour, "result is %+v", r)
	}},
}

// keepPromises charges three keys of a limit of four per second and waits as their results say.
func (s *suite) keepPromises(limit string) {
	s.align(second)
	r := s.take(claim("refill", limit, 3), claim("retry", limit, 4), claim("reset", limit, 4))
	retry := s.take(peek(claim("retry", limit, 2)))[0].RetryAfter
	s.wait(r[0].RefillAfter)
	left := s.take(peek(claim("refill", limit, 1)))[0].Remaining
	expect.True(s, left > r[0].Remaining, "%d remain after the refill, and %d before", left, r[0].Remaining)
	s.wait(retry - r[0].RefillAfter)
	if r := s.take(claim("retry", limit, 2))[0]; !r.Allowed {
		s.Errorf("denied after the retry: %+v", r)
	}
	s.wait(r[2].ResetAfter - retry)
	s.expect(words("yes 0"), claim("reset", limit, 4))
}

// contextRows check that a store does not make a request wait for longer than the request is ready to.
var contextRows = []row{
	{"each call returns when its context is done", func(s *suite) {
		s.take(claim("key", "5/d", 1))
		s.wantReturns()
	}},
	{"each call returns when its context is done, even if the backend hangs", func(s *suite) {
		if s.hang == nil {
			s.Skip("the harness has no Hang")
		}
		s.take(claim("key", "5/d", 1))
		s.hang(s.T)
		s.wantReturns()
	}},
}

// atMost is how long a call may go on after its context on a real clock: only a fault takes so long.
const atMost = 20 * second

// wantReturns makes each call with a context that is done and with one that will be. In a bubble the call must end with its context.
func (s *suite) wantReturns() {
	most := atMost
	if s.bubble {
		most = 0
	}
	c := []core.Claim{claim("key", "5/d", 1)}
	settlements := []core.Settlement{{Rule: "rule", Key: "key", Limits: c[0].Limits, At: s.last, Cost: 1}}
	for name, call := range map[string]func(context.Context){
		"Take":   func(ctx context.Context) { _, _ = s.store.Take(ctx, c, nil) },
		"Settle": func(ctx context.Context) { _ = s.store.Settle(ctx, settlements) },
		"Reset":  func(ctx context.Context) { _ = s.store.Reset(ctx, []core.Pair{{Rule: "rule", Key: "key"}}) },
	} {
		for _, timeout := range []time.Duration{0, 50 * ms} {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			begun, returned := time.Now(), make(chan struct{})
			go func() {
				defer close(returned)
				call(ctx)
			}()
			select {
			case <-returned:
			case <-time.After(timeout + atMost):
			}
			expect.AtMost(s, time.Since(begun)-timeout, most, "%s had not returned after its context, whose timeout was %v", name, timeout)
			cancel()
		}
	}
}
