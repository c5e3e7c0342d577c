package outcome

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
)

// TestDisconnected checks which contexts that have ended belong to clients that have gone, or to deadlines that passed.
func TestDisconnected(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for why, row := range map[string]struct {
		ctx     context.Context
		method  string
		proto   int
		written bool
		want    error
	}{
		"GET":                          {canceled, "GET", 2, true, context.Canceled},
		"HEAD over HTTP/2":             {canceled, "HEAD", 2, true, nil},
		"HEAD over HTTP/1":             {canceled, "HEAD", 1, true, context.Canceled},
		"HEAD before the response":     {canceled, "HEAD", 2, false, context.Canceled},
		"HEAD after a deadline":        {late, "HEAD", 2, true, context.DeadlineExceeded},
		"a context that has not ended": {t.Context(), "GET", 2, true, nil},
	} {
		r := httptest.NewRequestWithContext(row.ctx, row.method, "/", nil)
		r.ProtoMajor = row.proto
		expect.Equal(t, Of(r, Answer{Returned: true, Written: row.written}).Err, row.want, "%s", why)
	}
}

func TestStatus(t *testing.T) {
	for _, row := range []struct{ proto, written, want int }{{1, 0, 200}, {1, 103, 200}, {1, 101, 101}, {2, 101, 200}, {1, 404, 404}} {
		r := httptest.NewRequest("GET", "/", nil)
		r.ProtoMajor = row.proto
		expect.Equal(t, Of(r, Answer{Returned: true, Written: true, Status: row.written}).Status, row.want, "HTTP/%d, %d", row.proto, row.written)
	}
}
