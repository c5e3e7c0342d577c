package peers

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/telemetry"
)

// Observed is Limiter.Check of a request with an observer that does nothing. It reports whether the request is allowed.
func Observed(l Limit) func() bool {
	return checked(l, core.WithObserver(func(context.Context, *core.Observation) {}))
}

// Counted is Observed with package telemetry as the observer.
func Counted(l Limit) func() bool {
	return checked(l, core.WithObserver(telemetry.New(telemetry.Options{}).Observe))
}

func checked(l Limit, opts ...core.Option) func() bool {
	return check([]core.Rule{l.core().By(keyfunc.RemoteIP)}, "/api/v1/things/42", opts...)
}

// Routed is Limiter.Check with n rules, one of which has the route of the request.
func Routed(l Limit, n int) func() bool {
	rules := make([]core.Rule, n)
	for i := range rules {
		rules[i] = l.core().By(keyfunc.RemoteIP)
		rules[i].Name, rules[i].Routes = "rule"+strconv.Itoa(i), []string{fmt.Sprintf("GET /api/v1/things%d/{id}", i)}
	}
	return check(rules, fmt.Sprintf("/api/v1/things%d/42", n/2))
}

// Unrouted is Limiter.Check of a request with one rule for all routes.
func Unrouted(l Limit) func() bool { return checked(l) }

func check(rules []core.Rule, path string, opts ...core.Option) func() bool {
	limiter := core.Must(core.New(rules, opts...))
	r := must(http.NewRequest(http.MethodGet, path, nil))
	r.RemoteAddr = "203.0.113.9:4711"
	return func() bool {
		d, err := limiter.Check(r)
		return err == nil && d.Allowed && len(d.Results) == 1
	}
}

// A roundTripper answers all requests alike.
type roundTripper struct{ response http.Response }

func (t *roundTripper) RoundTrip(*http.Request) (*http.Response, error) {
	r := t.response
	return &r, nil
}

// RoundTrip sends a request to a server that announces a limit which is far away, through a client.Transport or without.
func RoundTrip(obeying bool) func() bool {
	h := http.Header{}
	h.Set("X-RateLimit-Limit", "1000000")
	h.Set("X-RateLimit-Remaining", "999999")
	h.Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
	var rt http.RoundTripper = &roundTripper{http.Response{StatusCode: http.StatusOK, Header: h, Body: http.NoBody}}
	if obeying {
		rt = &client.Transport{Base: rt}
	}
	r := must(http.NewRequest(http.MethodGet, "http://api.example.com/v1/things", nil))
	return func() bool {
		resp, err := rt.RoundTrip(r)
		return err == nil && resp.Body.Close() == nil
	}
}
