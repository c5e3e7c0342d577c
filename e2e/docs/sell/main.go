// Sell serves an API to customers who have bought a number of requests per month. Run as many processes of it as you
// like: they share the counts in Redis.
package main

import (
	"cmp"
	"errors"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A plan is what a customer has bought.
type plan struct {
	PerMonth   int
	PerDay     int // so that a mistake in a customer's program does not use up the month
	BillingDay int // 1 to 31
	Zone       string
}

// plans stands for a table of your database.
var plans = map[string]plan{"ann": {PerMonth: 10_000, PerDay: 2000, BillingDay: 15, Zone: "Europe/Berlin"}}

// partners have limits of their own, by key.
var partners = map[string][]core.Limit{"user:partner": {core.PerMonth(1_000_000)}}

// customer says who sent r. Verify a session or a token here: anyone can write this cookie.
func customer(r *http.Request) (name string, ok bool) {
	c, err := r.Cookie("customer")
	if err != nil || !known(c.Value) {
		return "", false
	}
	return c.Value, true
}

// known reports whether there is a customer of this name.
func known(name string) bool { return plans[name] != (plan{}) || partners["user:"+name] != nil }

// limitsOf returns the limits that apply to a customer.
func limitsOf(name string) []core.Limit {
	if own := partners["user:"+name]; own != nil {
		return own
	}
	p := plans[name]
	return []core.Limit{core.PerMonth(p.PerMonth).In(p.Zone).From(p.BillingDay), core.PerDay(p.PerDay).In(p.Zone)}
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS"), "127.0.0.1:6379"), ContextTimeoutEnabled: true})
	limiter := core.Must(core.New([]core.Rule{{
		Name:   "plan",
		Key:    keyfunc.User(customer),
		Limits: []core.Limit{core.PerMonth(100)},
		Tier: func(r *http.Request) []core.Limit {
			name, _ := customer(r)
			return limitsOf(name)
		},
		Override: func(key string) []core.Limit { return partners[key] },
	}}, core.WithStore(redisstore.New(client)), core.WithTimeout(time.Second))) // without a reply from Redis, this process counts the request itself

	// support grants a customer n requests, or takes some away. Protect it by the authentication of your staff.
	support := func(w http.ResponseWriter, r *http.Request) {
		name := r.FormValue("customer")
		if !known(name) { // a limiter takes any key: it does not know your customers
			http.Error(w, "no such customer", http.StatusNotFound)
			return
		}
		n, _ := strconv.Atoi(r.FormValue("n"))
		err := limiter.Grant(r.Context(), "plan", "user:"+name, n, limitsOf(name)...)
		switch {
		case errors.Is(err, core.ErrInvalid):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, "perhaps nothing was granted; look before you try again", http.StatusServiceUnavailable)
		}
	}

	mux := http.NewServeMux()
	mux.Handle("/api/", stdlib.New(limiter)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a result\n")) })))
	mux.Handle("GET /usage", stdlib.NewUsage(limiter, "plan")) // costs nothing
	mux.HandleFunc("GET /account", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(account)) })
	mux.HandleFunc("POST /support/grant", support)
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8080"), mux))
}

// account is the customers' page: it shows what is left of each limit, and when it starts over.
const account = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Your plan</title><meta name="viewport" content="width=device-width">
<h1>Your plan</h1>
<p id="state" role="status">Loading …</p>
<ul id="limits"></ul>
<script>
"use strict";
async function show() {
	const state = document.getElementById("state"), list = document.getElementById("limits");
	try {
		const response = await fetch("usage");
		if (!response.ok) throw new Error(response.status === 401 ? "Please sign in." : "What is left is not known now. Try again in a minute.");
		const plan = (await response.json()).resources.plan;
		state.textContent = plan.remaining + " requests left";
		list.replaceChildren(...plan.limits.map(limit => {
			const item = document.createElement("li"), bar = document.createElement("progress");
			bar.max = limit.limit;
			bar.value = limit.used;
			const resets = limit.used ? ", starts over on " + new Date(limit.reset * 1000).toLocaleString() : "";
			item.append("this " + limit.per + ": " + limit.used + " of " + limit.limit + " used" + resets + " ", bar);
			return item;
		}));
	} catch (e) {
		state.textContent = e.message;
		list.replaceChildren();
	}
}
show();
setInterval(() => document.hidden || show(), 5000);
</script>
`
