package calls

import (
	"fmt"
	"net/http/httputil"
	"net/url"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// guarded returns a guard for the service: 5 failed logins in 10 minutes.
func guarded() apps.Guard {
	rule := core.Rule{Name: "login", Key: keyfunc.RemoteIP, Routes: []string{"/" + service + "/"}, Limits: core.MustParseLimits("5/10m"), CostAfter: core.Failures}
	return apps.Guard{Limiter: core.Must(core.New([]core.Rule{rule}))}
}

// guess sends 20 wrong passwords by clients in turn, and checks that the service looked at 5.
func guess(t *testing.T, l *login, kind string, clients ...client) {
	t.Helper()
	l.ran.Store(0)
	for i := range 20 {
		want := codes.Unauthenticated
		if i >= 5 {
			want = codes.ResourceExhausted
		}
		c := clients[i%len(clients)]
		l.served.Wait()
		err := c.within(t, kind, "wrong")
		expect.Equal(t, codeOf(err), want, "guess %d, by %s: %v", i+1, c.name, err)
	}
	expect.Equal(t, l.ran.Load(), 5, "how often the handler ran")
}

// guessBy guesses passwords of a service by each client, of which successful logins are not counted, and then by all of them
// in turn. clients returns the clients of a server with a new limiter.
func guessBy(t *testing.T, l *login, kind string, clients func(t *testing.T) []client) {
	var all []client
	for i, c := range clients(t) {
		if !c.can(kind) {
			continue
		}
		all = append(all, c)
		t.Run(c.name, func(t *testing.T) {
			c := clients(t)[i]
			for range 7 {
				l.served.Wait()
				must.Do(t, c.within(t, kind, right))
			}
			guess(t, l, kind, c)
		})
	}
	guess(t, l, kind, all...)
}

// TestPasswordGuessing guesses passwords of servers in each router, and of a server of grpc-go.
func TestPasswordGuessing(t *testing.T) {
	for _, s := range servings() {
		for _, kind := range kinds {
			t.Run(fmt.Sprintf("%s %s", s.name, kind), func(t *testing.T) {
				l := new(login)
				guessBy(t, l, kind, func(t *testing.T) []client { return s.clients(t, l, guarded()) })
			})
		}
	}
}

// TestPasswordGuessingThroughProxy guesses passwords of a server behind a limited httputil.ReverseProxy, which copies the trailer.
func TestPasswordGuessingThroughProxy(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := new(login)
			app := l.app(apps.Guard{})
			app.Guards = nil
			to := must.Get(url.Parse("http://" + serve(t, apps.Frameworks[0].Build(app))))(t)
			proxy := &httputil.ReverseProxy{Transport: transportOf(t, true), FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
			guessBy(t, l, kind, func(t *testing.T) []client { return clientsOf(t, l.serve(t, stdlib.New(guarded().Limiter)(proxy))) })
		})
	}
}
