package headers

import (
	"net/http"
	"sync/atomic"

	"github.com/spillgate/spillgate/core"
)

// Custom sets the fields of GitHub under other names, or with Reset in another form. The zero value writes the
// same fields as GitHub. Its Write method is the Writer.
type Custom struct {
	Prefix string      // of all names but Retry-After: "X-App" gives X-App-Limit; empty means "X-RateLimit"
	Reset  ResetFormat // the form of Prefix-Reset
}

// A ResetFormat says how the field Reset shows an instant. All round up to whole seconds.
type ResetFormat uint8

const (
	// EpochSeconds is seconds since the Unix epoch, such as 1767225600.
	EpochSeconds ResetFormat = iota

	// DeltaSeconds is seconds from Decision.At, such as 30; 0 if nothing is missing.
	DeltaSeconds

	// RFC3339 is a date in UTC, such as 2026-01-01T00:00:00Z.
	RFC3339
)

// Write is a Writer. A Prefix that cannot start a header name makes fields that net/http does not send; an unknown
// ResetFormat is EpochSeconds.
func (c Custom) Write(h http.Header, d core.Decision) {
	s, ok := show(&d)
	switch {
	case !ok:
	case c.Prefix == "":
		s.set(h, &gitHubNames, c.Reset)
	default:
		s.set(h, namesFor(c.Prefix), c.Reset)
	}
}

// latest caches the names that were made last, because a program usually has one prefix.
var latest atomic.Pointer[prefixed]

type prefixed struct {
	prefix string
	names  fieldNames
}

func namesFor(prefix string) *fieldNames {
	if p := latest.Load(); p != nil && p.prefix == prefix {
		return &p.names
	}
	start := http.CanonicalHeaderKey(prefix + "-")
	p := &prefixed{prefix, fieldNames{start + "Limit", start + "Remaining", start + "Used", start + "Reset", start + "Resource"}}
	latest.Store(p)
	return &p.names
}
