package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The bounds of the requests that the demo sends to one router.
const (
	maxRequests  = 2000
	maxSending   = 20 * time.Second
	maxWait      = time.Minute
	replyTimeout = 10 * time.Second
	maxBody      = 4 << 10
)

// A visit records the responses of one router: to requests until it denied one, and to one more request after the
// announced wait.
type visit struct {
	router  string
	path    string
	replies []reply       // all but the last are admissions; the last is one, too, if the visit was cut short
	sending time.Duration // from the first request to the last reply
	later   *reply        // to the request after the wait; nil if no wait was announced, or one longer than maxWait
	err     error         // why the visit was cut short
}

// A reply is the answer to one request.
type reply struct {
	status int
	header http.Header
	body   string
	at     time.Time
}

// last returns the reply that ended the sending. There must be one.
func (v visit) last() reply { return v.replies[len(v.replies)-1] }

// admitted counts the replies before the denial.
func (v visit) admitted() int {
	if v.last().status == http.StatusOK {
		return len(v.replies)
	}
	return len(v.replies) - 1
}

// wait returns the Retry-After of r, or 0 if it has none or a wrong one.
func (r reply) wait() time.Duration {
	seconds, err := strconv.ParseUint(r.header.Get("Retry-After"), 10, 31)
	if err != nil || len(r.header.Values("Retry-After")) != 1 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// visitAll visits all routers at base concurrently, so that their waits overlap. It returns the visits in the order of
// routers. Each request carries header.
func visitAll(ctx context.Context, base string, header http.Header) []visit {
	transport := &http.Transport{MaxIdleConnsPerHost: len(routers)}
	defer transport.CloseIdleConnections()
	c := client{http.Client{Transport: transport, Timeout: replyTimeout}, base, header}
	visits := make([]visit, len(routers))
	var wg sync.WaitGroup
	for i, r := range routers {
		visits[i] = visit{router: r.name, path: "/" + r.name + "/hello"}
		wg.Go(func() { visits[i].err = c.visit(ctx, &visits[i]) })
	}
	wg.Wait()
	return visits
}

// A client sends the requests of the demo.
type client struct {
	http   http.Client
	base   string
	header http.Header
}

func (c *client) visit(ctx context.Context, v *visit) error {
	start := time.Now()
	for denied := false; !denied; {
		r, err := c.get(ctx, v.path)
		if err != nil {
			return err
		}
		v.replies = append(v.replies, r)
		v.sending = r.at.Sub(start)
		denied = r.status != http.StatusOK
		if !denied && (len(v.replies) == maxRequests || v.sending > maxSending) {
			return errors.New("its limit was not met: it is too high or refills too fast for requests that are sent one at a time")
		}
	}
	wait := v.last().wait()
	if wait == 0 || wait > maxWait {
		return nil
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	r, err := c.get(ctx, v.path)
	if err != nil {
		return err
	}
	v.later = &r
	return nil
}

func (c *client) get(ctx context.Context, path string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return reply{}, err
	}
	req.Header = c.header.Clone()
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return reply{resp.StatusCode, resp.Header, string(body), time.Now()}, err
}
