package headers

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// GitHub sets the fields of the GitHub REST API:
//
//	X-RateLimit-Limit      the capacity of the tightest limit, see core.Decision.Tightest
//	X-RateLimit-Remaining  the remaining requests; 0 on a denial
//	X-RateLimit-Used       Limit - Remaining; 0 while a grant leaves more than the capacity, and then Limit is Remaining
//	X-RateLimit-Reset      UTC epoch seconds, rounded up: when the whole capacity is back or, if nothing remains, when
//	                       one more request fits
//	X-RateLimit-Resource   the name of the rule
//	Retry-After            on a denial: seconds to wait, rounded up, at least 1
//
// A denied request finds Remaining 0 even if a cheaper one would fit, and Reset at the end of Retry-After, because
// clients take Remaining 0 for the order to wait. A cost above the capacity can never fit: then Remaining and Reset are
// as they are, and there is no Retry-After. A limit of rate 0 has none either.
//
// See https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api.
func GitHub(h http.Header, d core.Decision) {
	if s, ok := show(&d); ok {
		s.set(h, &gitHubNames, EpochSeconds)
	}
}

// gitHubNames are in canonical form.
var gitHubNames = fieldNames{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Used", "X-Ratelimit-Reset", "X-Ratelimit-Resource",
}
