package respond

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// TestFailureSaysWhatTheClientCanDo checks the texts that clients see. None shows the text of the error.
func TestFailureSaysWhatTheClientCanDo(t *testing.T) {
	for _, row := range []struct {
		err    error
		status int
		detail string
	}{
		{core.ErrNoKey, 400, "The request has no key: credentials or an address are missing."},
		{core.ErrBadKey, 400, "The key of the request is ambiguous or malformed, such as a credential that was sent twice."},
		{core.ErrUnavailable, 503, "The request cannot be checked at the moment; retry later."},
		{core.ErrInvalid, 500, "The request could not be checked."},
		{errors.New("secret"), 500, "The request could not be checked."},
	} {
		for _, err := range []error{row.err, fmt.Errorf("rule %q: %w", "login", row.err)} {
			if p := Failure(err); p.Status != row.status || p.Detail != row.detail {
				t.Errorf("%v: got %d %q, want %d %q", err, p.Status, p.Detail, row.status, row.detail)
			}
		}
	}
}
