package core_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

func TestLeaseMistakes(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		why    string
		limits string
		lease  time.Duration
		final  func(*http.Request, core.Outcome) int
		want   string // empty: none
	}{
		{"no lease", "5/m;sliding-log", 0, core.Failures, ""},
		{"the shortest", "5/m, 7/h;fixed-window", ms, nil, ""},
		{"the longest", "5/m;burst=3", 10 * time.Second, nil, ""},
		{"negative", "5/m", -ms, nil, `rule "r": lease must be 0 or between 1ms and 10s, got -1ms`},
		{"too short", "5/m", ms - 1, nil, `rule "r": lease must be 0 or between 1ms and 10s, got 999.999µs`},
		{"too long", "5/m", 10*time.Second + 1, nil, `rule "r": lease must be 0 or between 1ms and 10s, got 10.000000001s`},
		{"with CostAfter", "5/m", ms, core.Failures, `rule "r": lease must be 0 for a rule with CostAfter, which holds its cost, got 1ms`},
		{"a sliding window", "5/m, 7/h;sliding-window", ms, nil, `lease 1ms needs token buckets without a ban or fixed windows, got limit 2, 7/1h;sliding-window`},
		{"a sliding log", "5/m;sliding-log", ms, nil, `got limit 1, 5/1m;sliding-log`},
		{"requests in flight", "5 at once", ms, nil, `got limit 1, 5 at once`},
		{"a ban", "5/m;ban=1h", ms, nil, `got limit 1, 5/1m;ban=1h`},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			r := core.Rule{Name: "r", Key: constKey, Limits: core.MustParseLimits(tt.limits), Lease: tt.lease, CostAfter: tt.final}
			err := newErr(r)
			set := core.Must(core.New([]core.Rule{named("a")})).SetRules([]core.Rule{r})
			if tt.want == "" && (err != nil || set != nil) {
				t.Fatalf("got %v from New and %v from SetRules, want none", err, set)
			}
			if tt.want != "" {
				wantError(t, err, core.ErrInvalid, tt.want)
				wantError(t, set, core.ErrInvalid, tt.want)
			}
		})
	}
}

func TestClaimLeaseMistakes(t *testing.T) {
	l := core.Must(core.New([]core.Rule{named("r")}))
	for _, lease := range []time.Duration{-1, time.Millisecond - 1, 10*time.Second + 1} {
		c := core.Claim{Rule: "r", Key: "k", Limits: []core.Limit{core.PerMinute(1)}, Lease: lease}
		wantError(t, c.Validate(), core.ErrInvalid, "lease must be 0 or between 1ms and 10s")
		_, err := l.Take(context.Background(), c)
		wantError(t, err, core.ErrInvalid, "lease must be 0 or between 1ms and 10s")
	}
}

// A leaser is a store that keeps the claims of its last Take and its last Settle, and has leases.
type leaser struct {
	core.MemoryStore
	taken   []core.Claim
	settled []core.Settlement
}

func (s *leaser) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.taken = append(s.taken[:0], claims...)
	return s.MemoryStore.Take(ctx, claims, dst)
}

func (s *leaser) Settle(ctx context.Context, settlements []core.Settlement) error {
	s.settled = append(s.settled[:0], settlements...)
	return s.MemoryStore.Settle(ctx, settlements)
}

func (s *leaser) LeaseStats() core.LeaseStats {
	return core.LeaseStats{Keys: 1, Decisions: 2, Returned: 3}
}

func TestClaimsHaveTheLeaseOfTheirRule(t *testing.T) {
	const lease = 100 * time.Millisecond
	s := new(leaser)
	r := named("r")
	r.Lease = lease
	l := core.Must(core.New([]core.Rule{r}, core.WithStore(s)))
	claim := core.Claim{Rule: "r", Key: "k"}
	own := core.Claim{Rule: "r", Key: "k", Lease: time.Second}
	tests := []struct {
		why    string
		decide func() (core.Decision, error)
		want   time.Duration
	}{
		{"check", func() (core.Decision, error) { return l.Check(get("/")) }, lease},
		{"peek", func() (core.Decision, error) { return l.Peek(get("/")) }, lease},
		{"take", func() (core.Decision, error) { return l.Take(context.Background(), claim) }, lease},
		{"take with one of its own", func() (core.Decision, error) { return l.Take(context.Background(), own) }, time.Second},
	}
	for _, tt := range tests {
		_ = l.Reset(context.Background(), "r", "k")
		_ = l.Reset(context.Background(), "r", "const:all")
		d, err := tt.decide()
		if err != nil || len(s.taken) != 1 || s.taken[0].Lease != tt.want {
			t.Errorf("%s: got %+v, %v, want a lease of %v", tt.why, s.taken, err, tt.want)
		}
		if tt.why == "peek" {
			continue
		}
		if err := l.Refund(context.Background(), d); err != nil || len(s.settled) != 1 || s.settled[0].Lease != tt.want {
			t.Errorf("%s: settled %+v, %v, want a lease of %v", tt.why, s.settled, err, tt.want)
		}
	}
}

func TestHealthHasTheLeasesOfTheStore(t *testing.T) {
	l := core.Must(core.New([]core.Rule{named("r")}, core.WithStore(new(leaser))))
	if h := l.StoreHealth(); h.Leases != (core.LeaseStats{Keys: 1, Decisions: 2, Returned: 3}) {
		t.Errorf("got %+v", h.Leases)
	}
	if h := core.Must(core.New([]core.Rule{named("r")})).StoreHealth(); h.Leases != (core.LeaseStats{}) {
		t.Errorf("got %+v of a store without leases", h.Leases)
	}
}
