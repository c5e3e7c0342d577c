package replay

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
)

const lockstepRules = `proxies: {trusted: [127.0.0.0/8]}
rules:
  - {name: all, key: ip, limits: "7/s, 40/m;sliding-window"}
  - {name: login, key: ip, limits: "3/10s;fixed-window, 9/m;sliding-log", match: [POST /login, "POST /v1/{tenant}/login"]}
  - {name: guess, key: ip, limits: "2/5s;ban=7s", match: POST /login, cost_after: failures}
  - {name: agent, key: "join(ip, header(User-Agent))", limits: 1/s;burst=4, match: /api/, cost: 2}
  - {name: tenant, key: ip, limits: 2/3s, match: "/v1/{tenant}/login", cost: 5, cost_after: failures}
`

// A live is a server that gets requests over TCP, on a clock that stands still during a request, and its log.
type live struct {
	*httptest.Server
	now    atomic.Int64 // microseconds
	log    strings.Builder
	denied []bool
}

func newLive(t *testing.T) *live {
	t.Helper()
	f := must.Get(rulefile.Parse([]byte(lockstepRules), rulefile.Funcs{}))(t)
	s := new(live)
	s.now.Store(noon.UnixMicro())
	store := &core.MemoryStore{Now: func() time.Time { return time.UnixMicro(s.now.Load()) }}
	l := core.Must(core.New(f.Rules, core.WithStore(store)))
	s.Server = httptest.NewServer(stdlib.New(l)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Password") == "wrong" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})))
	t.Cleanup(s.Close)
	return s
}

func (s *live) send(t *testing.T, client, path, agent, password string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, nil))(t)
	r.Header = http.Header{"X-Forwarded-For": {client}, "User-Agent": {agent}, "X-Password": {password}}
	answer := must.Get(s.Client().Do(r))(t)
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	s.denied = append(s.denied, answer.StatusCode == http.StatusTooManyRequests)
	fmt.Fprintf(&s.log, `{"ts":"%s","request":{"client_ip":"%s","method":"POST","uri":"%s","headers":{"User-Agent":["%s"]}},"status":%d}`+"\n",
		time.UnixMicro(s.now.Load()).UTC().Format("2006-01-02T15:04:05.000000Z"), client, path, agent, answer.StatusCode)
}

// A replay of a server's log denies exactly the requests that the server denied.
func TestLockstepWithALiveServer(t *testing.T) {
	s := newLive(t)
	random := rand.New(rand.NewPCG(1, 2))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	for range 5000 {
		s.now.Add(int64(random.IntN(120_000)))
		client := fmt.Sprintf("203.0.113.%d", random.IntN(3))
		s.send(t, client, one("/", "//login", "/login", "/v1/a/login", "/api/x", "/api/%79"), one("a", "b"), one("right", "wrong"))
	}
	p, left, err := newPlayer(rules(t, lockstepRules), func(string) bool { return true })
	must.True(t, err == nil && len(left) <= 0, "%v, %v", err, left)
	reader := must.Get(accesslog.NewReader("log", strings.NewReader(s.log.String()), accesslog.Options{Format: "caddy"}))(t)
	differences, denied := 0, 0
	var e accesslog.Entry
	for i := 0; reader.Next(&e) == nil; i++ {
		if p.decide(&e, e.At); p.denied != s.denied[i] {
			differences++
		}
		if s.denied[i] {
			denied++
		}
	}
	expect.True(t, differences == 0 && denied >= 500 && denied <= 4500 && reader.Entries == len(s.denied) && p.errs <= 0,
		"%d differences in %d of %d requests, %d of which were denied; %v", differences, reader.Entries, len(s.denied), denied, p.lastErr)
	for _, rule := range p.rules {
		expect.AtLeast(t, rule.denied, 50, "%s denied requests (enough to tell)", rule.rule.Name)
	}
}
