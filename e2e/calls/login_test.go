package calls

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/keyfunc"
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
		if err := c.within(t, kind, "wrong"); codeOf(err) != want {
			t.Errorf("guess %d, by %s: %v, want %v", i+1, c.name, err, want)
		}
	}
	if n := l.ran.Load(); n != 5 {
		t.Errorf("the handler ran %d times, want 5", n)
	}
}

// TestGuessing guesses passwords by each client, and by all of them in turn, of which successful logins are not counted.
func TestGuessing(t *testing.T) {
	for _, f := range apps.Frameworks {
		for _, kind := range kinds {
			t.Run(fmt.Sprintf("%s %s", f.Name, kind), func(t *testing.T) {
				l := new(login)
				clients := clientsOf(t, serve(t, f.Build(l.app(guarded()))))
				for i := range clients {
					if kind == unary || clients[i].name != "Connect by GET" { // streams are not sent by GET
						address := serve(t, f.Build(l.app(guarded())))
						t.Run(clients[i].name, func(t *testing.T) {
							one := clientsOf(t, address)[i]
							for range 7 {
								if err := one.within(t, kind, right); err != nil {
									t.Fatal(err)
								}
							}
							guess(t, l, kind, one)
						})
					}
				}
				guess(t, l, kind, clients...)
			})
		}
	}
}
