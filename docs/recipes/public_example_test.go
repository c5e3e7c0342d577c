package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// public limits pages that a cache may store, without rate limit headers.
func public(limiter *core.Limiter, pages http.Handler) http.Handler {
	return stdlib.New(limiter, stdlib.WithHeaders(headers.None))(pages)
}
