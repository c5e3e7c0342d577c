// Package logtest makes logs and rules for tests of programs that read access logs.
//
//	log := logtest.Entries{logtest.Sent(0, "203.0.113.7", "/login")}
package logtest

import (
	"io"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

// Entries is a log. Next removes its first entry.
type Entries []accesslog.Entry

// Next sets e to the next entry, or returns io.EOF.
func (s *Entries) Next(e *accesslog.Entry) error {
	if len(*s) == 0 {
		return io.EOF
	}
	*e, *s = (*s)[0], (*s)[1:]
	return nil
}

// Noon is the instant at which logs begin.
var Noon = time.Date(2025, 10, 10, 12, 0, 0, 0, time.UTC)

// Sent returns a request that got 200 some time after Noon.
func Sent(after time.Duration, client, path string) accesslog.Entry {
	return accesslog.Entry{At: Noon.Add(after), Client: client, Method: "GET", Target: path, Status: 200, Duration: -1}
}

// Rules reads rules for offline use. It fails the test if src has a mistake.
func Rules(t interface {
	Helper()
	Fatal(args ...any)
}, src string) *rulefile.File {
	t.Helper()
	f := must.Get(rulefile.Offline("f", []byte(src)))(t)
	return f
}
