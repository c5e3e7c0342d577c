package httprate

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// after limits each address to 100 requests per minute.
func after(next http.Handler) http.Handler {
	limit := core.PerMinute(100).Using(core.SlidingWindow)
	limiter := core.Must(core.New([]core.Rule{limit.By(keyfunc.RemoteIP)}))
	return stdlib.New(limiter)(next)
}
