package headers

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/fields"
)

// GitHub sets the fields of the GitHub REST API:
//
//	X-RateLimit-Limit      core.Result.Quota of the tightest limit: its capacity and what is granted; of a window or log, at least what was used
//	X-RateLimit-Remaining  the remaining requests; 0 on a denial
//	X-RateLimit-Used       Limit - Remaining
//	X-RateLimit-Reset      UTC epoch seconds, rounded up: when the whole capacity is back or, if nothing remains, when
//	                       one more request fits
//	X-RateLimit-Resource   the name of the rule
//	Retry-After            on a denial: seconds to wait, rounded up, at least 1
//
// On a denial, Remaining is 0 even if a cheaper request would fit, and Reset is the end of Retry-After, because clients
// wait when Remaining is 0. A cost above the capacity can never fit: then Remaining and Reset describe the limit as
// usual, and there is no Retry-After. Nor is there a Retry-After for a limit of rate 0.
//
// See https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api.
func GitHub(h http.Header, d core.Decision) {
	if v, ok := fields.Of(&d); ok {
		v.Set(h, &gitHubNames, fields.EpochSeconds)
	}
}

// gitHubNames are the names in canonical form.
var gitHubNames = fields.Names{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Used", "X-Ratelimit-Reset", "X-Ratelimit-Resource", "Retry-After",
}
