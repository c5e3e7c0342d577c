package tollbooth

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// after limits each address to 5 requests per second of each route, 10 at once.
func after(next http.Handler) http.Handler {
	key := keyfunc.Join(keyfunc.RemoteIP, keyfunc.Pattern)
	limiter := core.Must(core.New([]core.Rule{core.PerSecond(5).WithBurst(10).By(key)}))
	return stdlib.New(limiter)(next)
}
