package start

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// The program has Redis, a login, tiers, the page and a rules file that changes.
func TestTogether(t *testing.T) {
	rules := must.Get(os.ReadFile("together/spillgate.yaml"))(t)
	dir, server, app, page := t.TempDir(), redistest.Start(t), redistest.FreeAddr(t), redistest.FreeAddr(t)
	write(t, filepath.Join(dir, "spillgate.yaml"), string(rules))
	start(t, "together", dir, app, "127.0.0.1:8080", app, "127.0.0.1:9090", page, "127.0.0.1:6379", server.Addr)

	// On a busy machine, Redis may be late. Then a failure may not be counted, and a request that got a 503 may be held
	// for a minute.
	late := 0
	for range 20 {
		got, n := login(t, app, "right")
		late += n
		must.True(t, got == http.StatusOK || late != 0, "right password: got %d", got)
	}
	wrong := 0
	for ; wrong < 20; wrong++ {
		got, n := login(t, app, "wrong")
		late += n
		if got != http.StatusUnauthorized {
			break
		}
	}
	if got, _ := login(t, app, "right"); wrong+late < 5 || got != http.StatusTooManyRequests {
		t.Errorf("after %d wrong passwords, %d times without Redis: got %d, want 429 after 5", wrong, late, got)
	}
	limit := func(key string) string {
		r, _ := http.NewRequest(http.MethodGet, "http://"+app+"/api/hello", nil)
		r.Header.Set("X-Api-Key", key)
		return send(t, r).Header.Get("X-RateLimit-Limit")
	}
	free, pro := limit("some key"), limit("the key of a pro")
	expect.True(t, free == "1000" && pro == "100000", "limits %s and %s, want 1000 and 100000", free, pro)
	r, _ := http.NewRequest(http.MethodGet, "http://"+page+"/limits/", nil)
	expect.Equal(t, send(t, r).StatusCode, 200, "the page")
	write(t, filepath.Join(dir, "spillgate.yaml"), strings.Replace(string(rules), "limits: 1000/d", "limits: 2000/d", 1))
	redistest.Wait(t, "the new rules are active", func() bool { return limit("some key") == "2000" })
}

// login returns the status of a request that Redis has decided, and the number of earlier requests that it has not
// decided.
func login(t *testing.T, addr, password string) (code, late int) {
	t.Helper()
	late = -1
	redistest.Wait(t, "Redis decides within 50ms", func() bool {
		r, _ := http.NewRequest(http.MethodPost, "http://"+addr+"/login", nil)
		r.SetBasicAuth("ann", password)
		code = send(t, r).StatusCode
		late++
		return code != http.StatusServiceUnavailable
	})
	return code, late
}

func send(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	must.Do(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp
}

// A login in flight while the program stops gets its response, and is not settled as a failure.
func TestSlowRequestWhileTheProgramEnds(t *testing.T) {
	rules := must.Get(os.ReadFile("together/spillgate.yaml"))(t)
	dir, server, app, page := t.TempDir(), redistest.Start(t), redistest.FreeAddr(t), redistest.FreeAddr(t)
	write(t, filepath.Join(dir, "spillgate.yaml"), string(rules))
	const asked, begin = `if _, password, _ := r.BasicAuth()`, `w.WriteHeader(http.StatusEarlyHints); time.Sleep(time.Second); `
	const store, longer = "core.WithStore(store)", "core.WithStore(store), core.WithTimeout(time.Minute)"
	program := start(t, "together", dir, app, "127.0.0.1:8080", app, "127.0.0.1:9090", page, "127.0.0.1:6379", server.Addr,
		asked, begin+asked, store, longer)

	r, _ := http.NewRequest(http.MethodPost, "http://"+app+"/login", nil)
	r.SetBasicAuth("ann", "right")
	r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { return program.Process.Signal(syscall.SIGTERM) },
	}))
	expect.Equal(t, send(t, r).StatusCode, http.StatusOK, "send(t, r).StatusCode")
	expect.NoError(t, program.Wait(), "the program ended with")
	claim := core.Claim{Rule: "login", Key: "ip:127.0.0.1", Limits: core.MustParseLimits("5/10m;ban=1h"), Peek: true}
	results := must.Get(redisstore.New(server.Client(t), redisstore.WithPrefix("shop")).Take(t.Context(), []core.Claim{claim}, nil))(t)
	expect.Equal(t, results[0].Remaining, 5, "%+v (all 5 left)", results)
}
