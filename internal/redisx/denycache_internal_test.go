package redisx

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A denial that was decided before a reset, and is answered after it, is not remembered.
func TestALateDenialIsNotRemembered(t *testing.T) {
	s := New(nil, Options{DenyCache: 10})
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	now := time.Now()
	d := &denial{claims: cloned(claims), sent: now, received: now, lasts: time.Hour}
	turn := s.denied.turn(claims)
	s.forget(claims)
	if s.denied.add(d, 0, turn); s.denied.find(claims, now) != nil {
		t.Error("a denial from before the reset is remembered")
	}
	if s.denied.add(d, 0, s.denied.turn(claims)); s.denied.find(claims, now) != d {
		t.Error("a denial from after the reset is not remembered")
	}
	claims[0].Limits[0].Rate = 6
	if s.denied.find(claims, now) != nil {
		t.Error("what is remembered changed with the limits of the caller")
	}
}
