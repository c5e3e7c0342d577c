package throttled

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// after limits each address to 20 requests per minute, 6 at once.
func after(next http.Handler) (http.Handler, error) {
	limiter, err := core.New([]core.Rule{core.PerMinute(20).WithBurst(6).By(keyfunc.RemoteIP)})
	if err != nil {
		return nil, err
	}
	return stdlib.New(limiter)(next), nil
}
