package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A caller is a client of the shop that sends requests at a steady rate.
type caller struct {
	name      string
	perSecond int
	method    string
	path      string
	header    func(n int) http.Header // of the n-th request

	served, denied, failed atomic.Uint64
}

// newCallers returns the clients, which are named after their behavior.
func newCallers() []*caller {
	from := func(ip string) func(int) http.Header {
		return func(int) http.Header { return http.Header{"X-Forwarded-For": {ip}} }
	}
	customer := func(key string) func(int) http.Header {
		return func(int) http.Header { return http.Header{"X-Forwarded-For": {"198.51.100.7"}, "X-Api-Key": {key}} }
	}
	user := func(ip string) func(int) http.Header {
		r := http.Request{Header: http.Header{"X-Forwarded-For": {ip}}}
		r.SetBasicAuth("ann", rightPassword)
		return func(int) http.Header { return r.Header.Clone() }
	}
	forged := func(n int) http.Header {
		return http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d, 203.0.113.77", n%250)}}
	}
	return []*caller{
		{name: "a good client, 1/s", perSecond: 1, method: "GET", path: "items", header: from("198.51.100.20")},
		{name: "an abuser, 30/s", perSecond: 30, method: "GET", path: "items", header: from("203.0.113.66")},
		{name: "a forged address in each request, 10/s", perSecond: 10, method: "GET", path: "items", header: forged},
		{name: "a customer who pays for 20/s, 15/s", perSecond: 15, method: "GET", path: "items", header: customer(proKey)},
		{name: "a customer who does not, 15/s", perSecond: 15, method: "GET", path: "items", header: customer(freeKey)},
		{name: "guesses passwords, 2/s", perSecond: 2, method: "POST", path: "login", header: from("203.0.113.99")},
		{name: "knows the password, 2/s", perSecond: 2, method: "POST", path: "login", header: user("198.51.100.30")},
	}
}

// sendTraffic lets callers send requests to base until ctx is done. It returns when all have ended.
func sendTraffic(ctx context.Context, base string, callers []*caller) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(callers)}, Timeout: replyTimeout}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() { c.send(ctx, client, base) })
	}
	wg.Wait()
}

func (c *caller) send(ctx context.Context, client *http.Client, base string) {
	ticker := time.NewTicker(time.Second / time.Duration(c.perSecond))
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.request(ctx, client, base, n)
		}
	}
}

// request sends one request and counts its answer.
func (c *caller) request(ctx context.Context, client *http.Client, base string, n int) {
	r, err := http.NewRequestWithContext(ctx, c.method, base+shopPath+c.path, nil)
	if err != nil {
		return
	}
	r.Header = c.header(n)
	resp, err := client.Do(r)
	if err != nil {
		return // the demo ends
	}
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		c.denied.Add(1)
	case http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusBadRequest:
		c.failed.Add(1)
	default:
		c.served.Add(1)
	}
}
