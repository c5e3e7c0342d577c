package peers

import (
	"context"
	"net"
	"net/http"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/throttled/throttled/v2"
	ulule "github.com/ulule/limiter/v3"
	ululestd "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A Middleware limits by the address of the TCP peer, writes its library's headers and responds with 429 by itself.
type Middleware struct {
	Name string
	Wrap func(next http.Handler) http.Handler
}

// OverHTTP lists the peers that have a middleware for net/http.
var OverHTTP = []func(Limit) Middleware{SethvargoHTTP, HTTPRateHTTP, UluleHTTP, ThrottledHTTP}

// SpillgateHTTP is the stdlib adapter with its default options.
func SpillgateHTTP(l Limit) Middleware { return Middleware{"spillgate", stdlib.New(newLimiter(l))} }

func newLimiter(l Limit) *core.Limiter {
	return core.Must(core.New([]core.Rule{l.core().By(keyfunc.RemoteIP)}))
}

// SethvargoHTTP is httplimit of github.com/sethvargo/go-limiter.
func SethvargoHTTP(l Limit) Middleware {
	return Middleware{"sethvargo", must(httplimit.NewMiddleware(newSethvargo(l), httplimit.IPKeyFunc())).Handle}
}

// HTTPRateHTTP is github.com/go-chi/httprate.
func HTTPRateHTTP(l Limit) Middleware {
	return Middleware{"httprate", httprate.LimitBy(l.Rate, l.Period, remoteIP)}
}

// SpillgateUsers is the stdlib adapter with its default options and a limit for each user.
func SpillgateUsers(l Limit) func(http.Handler) http.Handler {
	return stdlib.New(users(l))
}

func users(l Limit) *core.Limiter {
	return core.Must(core.New([]core.Rule{l.core().By(keyfunc.Header("X-User"))}))
}

// HTTPRateUsers is github.com/go-chi/httprate with a limit for each user.
func HTTPRateUsers(l Limit) func(http.Handler) http.Handler {
	return httprate.LimitBy(l.Rate, l.Period, func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil })
}

// remoteIP is what httprate.KeyByIP, now deprecated, does.
func remoteIP(r *http.Request) (string, error) {
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		ip = r.RemoteAddr
	}
	return httprate.CanonicalizeIP(ip), nil
}

// UluleHTTP is the middleware for net/http of github.com/ulule/limiter.
func UluleHTTP(l Limit) Middleware {
	m := ululestd.NewMiddleware(newUlule(l))
	return Middleware{"ulule", m.Handler}
}

type baselineKey struct{}

// Context is a baseline: a value in the context of the request, which is copied for that.
func Context() Middleware {
	return Middleware{"context", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), baselineKey{}, w)))
		})
	}}
}

// Fields is a baseline: the five fields that GitHub has, whose texts are made before and whose slices share an array.
func Fields() Middleware {
	return Middleware{"five fields", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h, values := w.Header(), []string{"1000000000", "999990000", "10000", "1767268800", "default"}
			h["X-Ratelimit-Limit"] = values[0:1:1]
			h["X-Ratelimit-Remaining"] = values[1:2:2]
			h["X-Ratelimit-Used"] = values[2:3:3]
			h["X-Ratelimit-Reset"] = values[3:4:4]
			h["X-Ratelimit-Resource"] = values[4:5:5]
			next.ServeHTTP(w, r)
		})
	}}
}

func newUlule(l Limit) *ulule.Limiter {
	return ulule.New(ululemem.NewStore(), ulule.Rate{Period: l.Period, Limit: int64(l.Rate)})
}

// ThrottledHTTP is HTTPRateLimiter of github.com/throttled/throttled.
func ThrottledHTTP(l Limit) Middleware {
	m := throttled.HTTPRateLimiterCtx{RateLimiter: newThrottled(l), VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	return Middleware{"throttled", m.RateLimit}
}
