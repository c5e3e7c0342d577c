package headers

import (
	"net/http"
	"sync/atomic"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/fields"
)

// Custom sets the fields of GitHub with other names, or with Reset in another format. The zero value sets the same
// fields as GitHub. Pass its Write method as a Writer.
type Custom struct {
	Prefix string      // of all names except Retry-After: "X-App" gives X-App-Limit; "" means "X-RateLimit"
	Reset  ResetFormat // the format of Prefix-Reset
}

// A ResetFormat is a format of the field Reset. All formats round up to whole seconds.
type ResetFormat uint8

const (
	// EpochSeconds is seconds since the Unix epoch, such as 1767225600.
	EpochSeconds ResetFormat = iota

	// DeltaSeconds is seconds from Decision.At, such as 30; 0 if nothing is missing.
	DeltaSeconds

	// RFC3339 is a date in UTC, such as 2026-01-01T00:00:00Z.
	RFC3339
)

// Write is a Writer. If Prefix cannot start a header name, net/http does not send the fields. An unknown ResetFormat
// means EpochSeconds.
func (c Custom) Write(h http.Header, d core.Decision) {
	v, ok := fields.Of(&d)
	switch {
	case !ok:
	case c.Prefix == "":
		v.Set(h, &gitHubNames, fields.Format(c.Reset))
	default:
		v.Set(h, namesFor(c.Prefix), fields.Format(c.Reset))
	}
}

// latest caches the most recent names, because a program usually has one prefix.
var latest atomic.Pointer[prefixed]

type prefixed struct {
	prefix string
	names  fields.Names
}

func namesFor(prefix string) *fields.Names {
	if p := latest.Load(); p != nil && p.prefix == prefix {
		return &p.names
	}
	start := http.CanonicalHeaderKey(prefix + "-")
	p := &prefixed{prefix, fields.Names{start + "Limit", start + "Remaining", start + "Used", start + "Reset", start + "Resource", "Retry-After"}}
	latest.Store(p)
	return &p.names
}
