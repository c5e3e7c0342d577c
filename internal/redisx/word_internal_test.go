package redisx

import (
	"context"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
)

// The scripts pack words themselves where there is no struct.
func TestWordsAreTheSameWithoutStruct(t *testing.T) {
	client := redistest.Start(t).Client(t)
	source := read("number", "word") + `
		local own, form, numbers = wordsWithoutStruct(), '<I8I8I8I8I8', {0, 1, 255, 1800000000000000, maxExact}
		local text = own.pack(form, unpack(numbers))
		local back = {own.unpack(form, 'x' .. text, 2)}
		for i, n in ipairs(numbers) do
			if back[i] ~= n then
				return 'word ' .. i .. ' reads ' .. format('%d', back[i])
			end
		end
		return text == struct.pack(form, unpack(numbers)) and 'alike' or 'not alike'`
	if got, err := client.Eval(context.Background(), source, nil).Text(); err != nil || got != "alike" {
		t.Errorf("%s, %v", got, err)
	}
}

// What is left to others because of one key may change another, which later requests find as it is then.
func TestAFlightSeesWhatWasLeftToOthers(t *testing.T) {
	s := frozenStore(t)
	of := func(limits string, keys ...string) *job {
		var claims []core.Claim
		for _, key := range keys {
			claims = append(claims, core.Claim{Key: key, Limits: core.MustParseLimits(limits)})
		}
		return s.jobOf(t, claims...)
	}
	last := of("100/m", "a", "new")
	for _, jobs := range [][]*job{{of("100/m", "a")}, {of("7/d", "other")}, {of("100/m", "a", "other"), last}} {
		if err := s.run(context.Background(), &takeScript, jobs); err != nil {
			t.Fatal(err)
		}
	}
	if err := last.read(); err != nil || last.usages[0].Remaining != 97 || last.usages[1].Remaining != 99 {
		t.Errorf("%+v, %v, want 97 and 99 remaining", last.usages, err)
	}
}
