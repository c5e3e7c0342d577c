package replay

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
)

// A live server and a replay of its log refuse the same requests.
func TestLockstepWithALiveServer(t *testing.T) {
	const src = `rules:
  - {name: all, key: ip, limits: "7/s, 40/m;sliding-window"}
  - {name: login, key: ip, limits: "3/10s;fixed-window, 9/m;sliding-log", match: [POST /login, "POST /v1/{tenant}/login"]}
  - {name: agent, key: "join(ip, header(User-Agent))", limits: 4/s;burst=9, match: /api/, cost: 2}
`
	var log strings.Builder
	var live []bool
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(liveRules(t, src)))
		h := stdlib.New(l)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		random := rand.New(rand.NewPCG(1, 2))
		for range 5000 {
			time.Sleep(time.Duration(random.IntN(120_000)) * time.Microsecond)
			client := fmt.Sprintf("203.0.113.%d", random.IntN(3))
			path := []string{"/", "//login", "/v1/a/login", "/api/x", "/api/%79"}[random.IntN(5)]
			agent := []string{"a", "b"}[random.IntN(2)]
			r := httptest.NewRequest(http.MethodPost, path, nil)
			r.RemoteAddr = client + ":1"
			r.Header.Set("User-Agent", agent)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			live = append(live, w.Code == http.StatusTooManyRequests)
			fmt.Fprintf(&log, `{"ts":"%s","request":{"client_ip":"%s","method":"POST","uri":"%s","headers":{"User-Agent":["%s"]}},"status":%d}`+"\n",
				time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), client, path, agent, w.Code)
		}
	})
	p, left, err := newPlayer(rules(t, src), func(string) bool { return true })
	if err != nil || len(left) > 0 {
		t.Fatal(err, left)
	}
	reader, err := accesslog.NewReader("log", strings.NewReader(log.String()), accesslog.Options{Format: "caddy"})
	if err != nil {
		t.Fatal(err)
	}
	differences, refused := 0, 0
	var e accesslog.Entry
	for i := 0; reader.Next(&e) == nil; i++ {
		if p.decide(&e, e.At); p.refused != live[i] {
			differences++
		}
		if live[i] {
			refused++
		}
	}
	if differences != 0 || refused < 500 || refused > 4500 || reader.Entries != len(live) {
		t.Errorf("%d differences in %d of %d requests, %d of which were refused", differences, reader.Entries, len(live), refused)
	}
}

func liveRules(t *testing.T, src string) []core.Rule {
	t.Helper()
	f, err := rulefile.Parse([]byte(src), rulefile.Funcs{})
	if err != nil {
		t.Fatal(err)
	}
	return f.Rules
}
