package main

import (
	"net/http"
	"net/netip"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// shopPath is below which the shop is served.
const shopPath = "/shop/"

// newShop returns an application with several rules, to which the demo sends traffic as if through a proxy on this
// machine.
func newShop(opts ...core.Option) (http.Handler, *core.Limiter, error) {
	proxy := keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	ip, err := keyfunc.NewClientIP(proxy)
	if err != nil {
		return nil, nil, err
	}
	limiter, err := core.New([]core.Rule{
		{Name: "shop", Key: keyfunc.First(keyfunc.APIKey("X-Api-Key"), ip), Limits: core.MustParseLimits("5/s"), Tier: tierOf, Routes: []string{"GET /shop/"}},
		{Name: "login", Key: ip, Limits: core.MustParseLimits("5/10m;ban=1h"), Routes: []string{"POST /shop/login"}, Final: core.Failures, OnFailure: core.FailClosed},
		{Name: "stricter (trial)", Key: ip, Limits: core.MustParseLimits("60/m"), DryRun: true},
	}, opts...)
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /shop/items", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /shop/login", logIn)
	return stdlib.New(limiter)(mux), limiter, nil
}

// logIn answers 204 to the right password and 401 to any other. Only the latter count.
func logIn(w http.ResponseWriter, r *http.Request) {
	if _, password, _ := r.BasicAuth(); password != rightPassword {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// rightPassword is that of every user of the shop.
const rightPassword = "right"

// tierOf returns the limits of the plan that the customer of r has.
func tierOf(r *http.Request) []core.Limit {
	if r.Header.Get("X-Api-Key") == proKey {
		return []core.Limit{core.PerSecond(20)}
	}
	return nil
}

// The API keys of customers with and without a paid plan.
const proKey, freeKey = "pro-customer", "free-customer"
