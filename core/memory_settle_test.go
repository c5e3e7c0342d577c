package core_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// Settling claim by claim would let another request see one of them settled and the other not.
func TestMemoryStoreSettlesAllClaimsAtOneInstant(t *testing.T) {
	readings := 0
	store := &core.MemoryStore{Now: func() time.Time {
		readings++
		return time.Unix(1_000_000+int64(readings), 0)
	}}
	claims := []core.Claim{
		{Key: "a", Limits: []core.Limit{core.AtOnce(1)}, Hold: true},
		{Key: "b", Limits: []core.Limit{core.AtOnce(1)}, Hold: true},
		{Key: "c", Limits: []core.Limit{core.PerHour(5)}},
	}
	results, err := store.Take(t.Context(), claims, nil)
	if err != nil {
		t.Fatal(err)
	}
	some := oracle.Settled(claims, results)
	some[0].Renew, some[1].Renew = true, true
	readings = 100
	some = append(some, core.Settlement{Key: "d", Ban: time.Hour})
	if err := store.Settle(t.Context(), some); err != nil {
		t.Fatal(err)
	}
	if at := time.Unix(1_000_101, 0); readings != 101 || some[0].At.After(at) || !some[0].At.Equal(some[1].At) {
		t.Errorf("renewed at %v and %v, by %d readings of the clock", some[0].At, some[1].At, readings-100)
	}
}

func TestMemoryStoreSettlesNoClaims(t *testing.T) {
	if err := new(core.MemoryStore).Settle(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
