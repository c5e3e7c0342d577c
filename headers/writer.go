package headers

import (
	"net/http"
	"strconv"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/fields"
)

// A Writer sets fields in h that describe d to the client. It must run before the response begins. To hide a rule from clients, set
// DryRun in a copy of d.Results: the deny handler, the body of a denial and the next handler use the same slice.
type Writer func(h http.Header, d core.Decision)

// None sets nothing, not even Retry-After.
func None(http.Header, core.Decision) {}

// RetryAfter sets Retry-After, as GitHub does, and nothing else. Clients do not learn how many requests remain.
func RetryAfter(h http.Header, d core.Decision) {
	if v, _ := fields.Of(&d); v.Retry > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(v.Retry, 10)}
	}
}

// Join returns a writer that calls each of ws in order. Join ignores nil writers.
func Join(ws ...Writer) Writer {
	return func(h http.Header, d core.Decision) {
		for _, w := range ws {
			if w != nil {
				w(h, d)
			}
		}
	}
}

// Expose lists the fields that GitHub and IETF set. A browser shows them to scripts of another origin only if the
// response lists them in Access-Control-Expose-Headers:
// https://fetch.spec.whatwg.org/#http-access-control-expose-headers.
var Expose = []string{
	"X-RateLimit-Limit",
	"X-RateLimit-Remaining",
	"X-RateLimit-Used",
	"X-RateLimit-Reset",
	"X-RateLimit-Resource",
	"RateLimit-Policy",
	"RateLimit",
	"Retry-After",
}
