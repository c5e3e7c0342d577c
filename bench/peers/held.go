package peers

import (
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// HeldHTTP is the stdlib adapter with a rule that holds the cost of a request until its response has ended.
func HeldHTTP(l Limit) Middleware {
	rule := l.core().By(keyfunc.RemoteIP)
	rule.Final = core.Failures
	return Middleware{"spillgate, held until the response has ended", stdlib.New(core.Must(core.New([]core.Rule{rule})))}
}

// AtOnceHTTP is the stdlib adapter with a limit of requests in flight.
func AtOnceHTTP(Limit) Middleware {
	return Middleware{"spillgate, requests at once", stdlib.New(core.Must(core.New([]core.Rule{core.AtOnce(1000).By(keyfunc.RemoteIP)})))}
}
