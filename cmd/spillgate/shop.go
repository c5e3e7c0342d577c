package main

import (
	_ "embed"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
)

// shopPath is the path prefix of the shop.
const shopPath = "/shop/"

// shopRules are the rules of the shop, unless another file is named.
//
//go:embed spillgate.yaml
var shopRules []byte

// shopFuncs are the functions that a rules file for the shop may name.
var shopFuncs = rulefile.Funcs{Tiers: map[string]func(*http.Request) string{"plan": planOf}}

// newShop returns an application with several rules. The demo sends traffic to it as if through a proxy on this
// machine.
func newShop(rules []core.Rule, opts ...core.Option) (http.Handler, *core.Limiter, error) {
	limiter, err := core.New(rules, opts...)
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /shop/items", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /shop/login", logIn)
	return stdlib.New(limiter)(mux), limiter, nil
}

// logIn responds with 204 to the right password and 401 to any other. Only a 401 counts against the limit.
func logIn(w http.ResponseWriter, r *http.Request) {
	if _, password, _ := r.BasicAuth(); password != rightPassword {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// rightPassword is the password of every user of the shop.
const rightPassword = "right"

// planOf returns the plan of the customer who sent r, or "".
func planOf(r *http.Request) string {
	if r.Header.Get("X-Api-Key") == proKey {
		return "pro"
	}
	return ""
}

// The API keys of customers with and without a paid plan.
const proKey, freeKey = "pro-customer", "free-customer"
