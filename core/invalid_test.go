package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// A store knows the state of a limit by algorithm and period, which a limit that is none may have as well.
func TestClaimsOfAKnownKeyMustBeValid(t *testing.T) {
	ctx := context.Background()
	good := core.MustParseLimits("5/m, 9/h")
	bad := good[0]
	bad.Rate = -1
	for name, claim := range map[string]core.Claim{
		"one limit":            {Key: "k", Limits: []core.Limit{bad}},
		"the first of several": {Key: "k", Limits: []core.Limit{bad, good[1]}},
		"the last of several":  {Key: "k", Limits: []core.Limit{good[1], bad}},
		"the cost of one":      {Key: "k", Limits: good[:1], Cost: -1},
		"the cost of several":  {Key: "k", Limits: good, Cost: -1},
	} {
		var m core.MemoryStore
		known := []core.Claim{{Key: "k", Limits: good}}
		if _, _, err := m.Take(ctx, known, nil); err != nil {
			t.Fatal(err)
		}
		if _, results, err := m.Take(ctx, []core.Claim{claim}, nil); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %+v, %v, want %v", name, results, err, core.ErrInvalid)
		}
		if _, results, err := m.Take(ctx, known, nil); err != nil || results[0].Remaining != 3 {
			t.Errorf("%s: %+v, %v afterwards, want 3 remaining", name, results, err)
		}
	}
}
