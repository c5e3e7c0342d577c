package golimiter

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// after limits each address to 15 requests per minute.
func after(next http.Handler) (http.Handler, error) {
	limiter, err := core.New([]core.Rule{core.PerMinute(15).Using(core.FixedWindow).By(keyfunc.RemoteIP)})
	if err != nil {
		return nil, err
	}
	return stdlib.New(limiter)(next), nil
}
