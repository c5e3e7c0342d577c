package redisx_test

import (
	"errors"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

// The error names each grant to a log among the settlements of a call: the server does not say which of them is too much.
func TestTooLargeAGrantIsNamed(t *testing.T) {
	s, _ := frozen(t)
	log := core.MustParseLimits("1000/h;sliding-log")
	grants := []core.Settlement{{Rule: "bucket", Key: "k", Limits: core.MustParseLimits("9/h"), Grant: 1}, {Rule: "log", Key: "k", Limits: log, Grant: 9001}}
	err := s.Settle(t.Context(), grants)
	const want = `spillgate: grant of rule "log": requests must be at most 9000 for 1000/1h;sliding-log, together with earlier grants, got 9001`
	expect.True(t, errors.Is(err, core.ErrInvalid) && err.Error() == want, "got %v, want %s", err, want)
}
