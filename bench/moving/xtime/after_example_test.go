package xtime

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// after limits each address to 2 requests per second, 4 at once.
func after(next http.Handler) http.Handler {
	limiter := core.Must(core.New([]core.Rule{core.PerSecond(2).WithBurst(4).By(keyfunc.RemoteIP)}))
	return stdlib.New(limiter)(next)
}
