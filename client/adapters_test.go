package client_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// adapters build a server with the adapters of this module. Package clients in e2e runs a Transport against all of them.
var adapters = []struct {
	name  string
	build func(*core.Limiter, headers.Writer) http.Handler
}{
	{"stdlib", func(l *core.Limiter, w headers.Writer) http.Handler {
		return stdlib.New(l, stdlib.WithHeaders(w))(http.HandlerFunc(ok))
	}},
	{"chi", func(l *core.Limiter, w headers.Writer) http.Handler {
		r := chi.NewRouter()
		r.Use(chilimit.New(l, chilimit.WithHeaders(w)))
		r.Get("/users/{id}", ok)
		return r
	}},
}

// TestSpillgateServers drives 50 goroutines for two minutes against each adapter with each header writer. If the writer
// reports what remains, no request is denied. If it writes only Retry-After, or nothing, there are few denials, and no
// caller sees one.
func TestSpillgateServers(t *testing.T) {
	for _, w := range []struct {
		name         string
		write        headers.Writer
		hasRemaining bool
	}{
		{"GitHub", headers.GitHub, true},
		{"IETF", headers.IETF, true},
		{"both", headers.Join(headers.GitHub, headers.IETF), true},
		{"Custom, seconds", headers.Custom{Reset: headers.DeltaSeconds}.Write, true},
		{"Custom, RFC 3339", headers.Custom{Reset: headers.RFC3339}.Write, true},
		{"Custom, other names", headers.Custom{Prefix: "X-App"}.Write, false},
		{"None", headers.None, false},
	} {
		for _, a := range adapters {
			for _, l := range []core.Limit{core.PerMinute(60), core.Every(20, 10*time.Second).Using(core.FixedWindow), core.PerMinute(40).Using(core.SlidingLog)} {
				t.Run(fmt.Sprint(w.name, ", ", a.name, ", ", l), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						limiter := core.Must(core.New([]core.Rule{l.By(keyfunc.Const("all"))}))
						s := &server{handler: a.build(limiter, w.write), latency: func() time.Duration { return rand.N(50 * time.Millisecond) }}
						drive(t, s, 50, 2*time.Minute)
						count := s.count()
						if admits := l.Rate * int(2*time.Minute/l.Period); 100*count[200] < 95*admits || w.hasRemaining && count[429] > 0 || count[429] > 3*admits {
							t.Errorf("%v, want %d admitted", count, admits)
						}
					})
				})
			}
		}
	}
}
