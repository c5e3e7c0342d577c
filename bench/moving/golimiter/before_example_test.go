package golimiter

import (
	"net/http"
	"time"

	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
)

// before limits each address to 15 requests per minute.
func before(next http.Handler) (http.Handler, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 15, Interval: time.Minute})
	if err != nil {
		return nil, err
	}
	limiter, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	return limiter.Handle(next), nil
}
