package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/spillgate/spillgate/e2e/internal/chromium"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv("LISTEN") != "" { // a process of TestTwoProcessesSellAPlan
		plans["ann"] = plan{PerMonth: 20, PerDay: 12, BillingDay: 15, Zone: "Europe/Berlin"}
		plans["carol"] = plan{PerMonth: 100, PerDay: 500, BillingDay: 1, Zone: "UTC"}
		plans["bob"] = plan{PerMonth: 5, PerDay: 12, BillingDay: 31, Zone: "America/New_York"}
		main()
	}
	os.Exit(m.Run())
}

// start starts a process of the program, and returns its address.
func start(t *testing.T, server *redistest.Server) string {
	addr := redistest.FreeAddr(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), "REDIS="+server.Addr, "LISTEN="+addr), os.Stderr
	must.Do(t, cmd.Start())
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	redistest.Wait(t, "the program listens", func() bool {
		resp, err := http.Get("http://" + addr + "/account")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	return addr
}

// TestTwoProcessesSellAPlan uses up a day in two processes, has support grant more, and watches the customer's page in a browser.
func TestTwoProcessesSellAPlan(t *testing.T) {
	server := redistest.Start(t)
	addrs := [2]string{start(t, server), start(t, server)}
	call := func(process int, customer, path string) *http.Response {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addrs[process%2]+path, nil)
		r.AddCookie(&http.Cookie{Name: "customer", Value: customer})
		resp, err := http.DefaultClient.Do(r)
		must.Do(t, err)
		resp.Body.Close()
		return resp
	}
	use := func(customer string, n, want int) {
		t.Helper()
		admitted := 0
		for i := range n {
			resp := call(i, customer, "/api/orders")
			if resp.StatusCode == http.StatusOK {
				admitted++
			}
			field := func(name string) int {
				n, _ := strconv.Atoi(resp.Header.Get("X-Ratelimit-" + name))
				return n
			}
			expect.True(t, field("Limit") != 0 && field("Limit") == field("Used")+field("Remaining"),
				"headers do not add up: %v", resp.Header)
		}
		expect.Equal(t, admitted, want, "of %d requests of %s were admitted", n, customer)
	}
	grant := func(process int, customer string, n, want int) {
		t.Helper()
		resp, err := http.PostForm("http://"+addrs[process]+"/support/grant", url.Values{"customer": {customer}, "n": {strconv.Itoa(n)}})
		must.Do(t, err)
		resp.Body.Close()
		expect.Equal(t, resp.StatusCode, want, "grant of %d to %s: %s", n, customer, resp.Status)
	}
	use("ann", 14, 12) // the day is used up
	use("bob", 7, 5)   // the month is
	use("partner", 30, 30)
	use("carol", 60, 60)
	grant(0, "carol", 50, http.StatusOK)
	use("carol", 92, 90) // of 150
	page := openAccount(t, "http://"+addrs[0], "ann")
	page(`0 requests left`, `this month: 12 of 20 used, starts over on`, `this day: 12 of 12 used, starts over on`)
	grant(1, "ann", 0, http.StatusBadRequest)
	grant(1, "anne", 5, http.StatusNotFound)
	grant(1, "ann", 5, http.StatusOK)
	page(`5 requests left`, `this month: 12 of 25 used, starts over on`, `this day: 12 of 17 used, starts over on`)
	time.Sleep(1100 * time.Millisecond) // a denial may be cached for this long
	use("ann", 7, 5)
	page(`0 requests left`, `this month: 17 of 25 used, starts over on`, `this day: 17 of 17 used, starts over on`)
	resp := call(0, "nobody", "/usage")
	expect.Equal(t, resp.StatusCode, http.StatusUnauthorized, "usage of nobody: %s", resp.Status)
	server.Kill()
	grant(0, "ann", 5, http.StatusServiceUnavailable)
	resp = call(1, "ann", "/usage")
	expect.Equal(t, resp.StatusCode, http.StatusServiceUnavailable, "usage without Redis: %s", resp.Status)
	page(`What is left is not known now. Try again in a minute.`)
}

// openAccount opens the page of a customer in a browser. It returns a func that waits until the page shows texts in this order.
func openAccount(t *testing.T, base, name string) (shows func(texts ...string)) {
	t.Helper()
	ctx, stop := chromium.Start()
	t.Cleanup(stop)
	if chromium.Missing(t, ctx) {
		return func(...string) {}
	}
	text := func() string {
		return must.Get(chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`)))(t)
	}
	must.Do(t, chromedp.Do(ctx, chromedp.Navigate(base+"/account")))
	redistest.Wait(t, "the page of nobody", func() bool { return strings.Contains(text(), "Please sign in.") })
	must.Get(chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`document.cookie = "customer=%s"`, name))))(t)
	return func(texts ...string) {
		t.Helper()
		redistest.Wait(t, fmt.Sprintf("the page shows %q", texts), func() bool {
			if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`show() && true`)); err != nil { // now, not in 5 seconds
				t.Fatal(err)
			}
			shown := text()
			for _, part := range texts {
				_, after, found := strings.Cut(shown, part)
				if shown = after; !found {
					return false
				}
			}
			return true
		})
	}
}
