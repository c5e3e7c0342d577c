// Package recipes holds the snippets of docs/recipes.md, and their tests.
package recipes

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// checkPassword responds with 204 to the right password, else 401. It reads the form itself.
func checkPassword(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("name") == "" || r.PostFormValue("password") != "right" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// limited returns h behind a limiter with these rules, and the limiter.
func limited(h http.HandlerFunc, rules ...core.Rule) (http.Handler, *core.Limiter) {
	l := core.Must(core.New(rules))
	return stdlib.New(l)(h), l
}

func post(h http.Handler, ip, path, form string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
	r.RemoteAddr = ip + ":41000"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// login sends a name and a password from an address, and returns the status.
func login(h http.Handler, ip, name, password string) int {
	return post(h, ip, "/login", url.Values{"name": {name}, "password": {password}}.Encode()).Code
}

func want(t *testing.T, what string, got, want int) {
	t.Helper()
	expect.Equal(t, got, want, "%s", what)
}

func TestOnlyWrongPasswordsUseUpTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := limited(checkPassword, loginByAddress(keyfunc.RemoteIP))
		right := func(when string) {
			t.Helper()
			for range 100 {
				want(t, "right password, "+when, login(h, "203.0.113.9", "ann", "right"), 204)
			}
		}
		right("first")
		for n := range 5 {
			want(t, fmt.Sprintf("wrong password %d", n+1), login(h, "203.0.113.9", "ann", "wrong"), 401)
			if n < 4 {
				right("between wrong ones")
			}
		}
		want(t, "wrong password 6", login(h, "203.0.113.9", "ann", "wrong"), 429)
		want(t, "right password after five wrong ones", login(h, "203.0.113.9", "ann", "right"), 429)
		want(t, "another address", login(h, "203.0.113.10", "ann", "wrong"), 401)
		time.Sleep(time.Hour - time.Second)
		want(t, "before the ban ends", login(h, "203.0.113.9", "ann", "right"), 429)
		time.Sleep(time.Second)
		want(t, "after the ban", login(h, "203.0.113.9", "ann", "right"), 204)
	})
}

func TestLoginsOfANameAreLimitedFromAllAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := limited(checkPassword, loginByAddress(keyfunc.RemoteIP), loginByName([]byte("secret")))
		for n := range 20 {
			ip := fmt.Sprintf("198.51.100.%d", n)
			want(t, "a wrong password of ann", login(h, ip, " ANN", "wrong"), 401)
			want(t, "a right password of ben", login(h, ip, "ben", "right"), 204)
		}
		want(t, "ann", login(h, "198.51.100.50", "ann", "right"), 429)
		want(t, "ben", login(h, "198.51.100.50", "ben", "right"), 204)
	})
}

func TestLoginWithoutOneNameIsDenied(t *testing.T) {
	h, _ := limited(checkPassword, loginByName([]byte("secret")))
	for _, form := range []string{"", "name=+", "name=a&name=b", "name=%", "name=" + strings.Repeat("a", 64<<10)} {
		want(t, form[:min(len(form), 20)], post(h, "203.0.113.9", "/login?name=ann", form).Code, 400)
	}
}

func TestSignInCountsFailuresOfAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{loginByAddress(keyfunc.RemoteIP)}))
		try := func(correct bool) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			signIn(l, w, httptest.NewRequest(http.MethodPost, "/login", nil), "ann", func() bool { return correct })
			return w
		}
		for range 20 {
			want(t, "right", try(true).Code, 204)
			want(t, "wrong", try(false).Code, 401)
		}
		denied := try(true)
		want(t, "after 20 wrong ones", denied.Code, 429)
		expect.Equal(t, denied.Header().Get("Retry-After"), "180", "Retry-After")
	})
}

func TestTokensAreChargedByUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := []int{58, 5_800}
		rule := tokens(keyfunc.RemoteIP)
		h, l := limited(func(w http.ResponseWriter, r *http.Request) {
			chat(w, r, func(yield func(string, int) bool) {
				for _, n := range used {
					if !yield("word ", n) {
						return
					}
				}
			})
		}, rule)
		expect.True(t, post(h, "203.0.113.9", "/v1/chat", "").Flushed, "the text stays in a buffer")
		d := must.Get(l.Peek(requestFrom("203.0.113.9", "/v1/chat")))(t)
		expect.Equal(t, d.Results[0].Remaining, 100_000-5_800, "%+v", d)
	})
}

func requestFrom(ip, path string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.RemoteAddr = ip + ":41000"
	return r
}

func TestTwoUploadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h, _ := limited(func(http.ResponseWriter, *http.Request) { <-release }, uploads(keyfunc.RemoteIP))
		for range 2 {
			go post(h, "203.0.113.9", "/uploads", "")
		}
		synctest.Wait()
		denied := post(h, "203.0.113.9", "/uploads", "")
		want(t, "the third", denied.Code, 429)
		expect.Equal(t, denied.Header().Get("Retry-After"), "1", "Retry-After")
		close(release)
		synctest.Wait()
		want(t, "after the two", post(h, "203.0.113.9", "/uploads", "").Code, 200)
	})
}

func TestBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{site(keyfunc.RemoteIP)}))
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
		mux.Handle("/wp-login.php", trap(l, keyfunc.RemoteIP))
		h := stdlib.New(l)(mux)
		for range 1000 {
			want(t, "one of 1,000", post(h, "203.0.113.9", "/", "").Code, 200)
		}
		if got := post(h, "203.0.113.9", "/", ""); got.Code != 429 || got.Header().Get("Retry-After") != "3600" {
			t.Errorf("%d, Retry-After %q", got.Code, got.Header().Get("Retry-After"))
		}
		for _, r := range []*http.Request{
			httptest.NewRequest(http.MethodGet, "/wp-login.php", nil), // an <img> of another page
			httptest.NewRequest(http.MethodPost, "/wp-login.php", nil),
		} {
			r.RemoteAddr = "203.0.113.66:1234"
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want(t, "the trap for a reader of another page", w.Code, 404)
			want(t, "the reader", post(h, "203.0.113.66", "/", "").Code, 200)
		}
		want(t, "the trap", post(h, "203.0.113.66", "/wp-login.php", "").Code, 404)
		if got := post(h, "203.0.113.66", "/", ""); got.Code != 429 || got.Header().Get("Retry-After") != "86400" {
			t.Errorf("%d, Retry-After %q", got.Code, got.Header().Get("Retry-After"))
		}
		want(t, "another address", post(h, "203.0.113.67", "/", "").Code, 200)
		for _, ip := range []string{"203.0.113.9", "203.0.113.66"} {
			must.Do(t, l.Reset(t.Context(), "site", "ip:"+ip))
			want(t, "after a reset", post(h, ip, "/", "").Code, 200)
		}
	})
}

func TestCreditsAreRefunded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 0
		h, l := limited(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, credits(keyfunc.RemoteIP))
		remaining := func() int {
			return must.Get(l.Peek(requestFrom("203.0.113.9", "/export")))(t).Results[0].Remaining
		}
		for _, row := range []struct{ status, remaining int }{{200, 975}, {502, 975}, {400, 950}} {
			status = row.status
			post(h, "203.0.113.9", "/export", "")
			want(t, fmt.Sprint("credits left after ", row.status), remaining(), row.remaining)
		}
		down := errors.New("upstream is down")
		err := export(t.Context(), l, "ip:203.0.113.9", func() error { return down })
		expect.ErrorIs(t, err, down, "err")
		want(t, "credits left after a failed job", remaining(), 950)
		err = export(t.Context(), l, "ip:203.0.113.9", func() error { return nil })
		expect.NoError(t, err, "export")
		want(t, "credits left after a job", remaining(), 925)
	})
}

func TestPublicPagesHaveNoHeadersForACacheToStore(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerMinute(1).By(keyfunc.RemoteIP)}))
	h := public(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	got := post(h, "203.0.113.9", "/", "")
	want(t, "a page", got.Code, 200)
	expect.Equal(t, len(got.Header()), 0, "the page has the headers %v", got.Header())
	want(t, "one too many", post(h, "203.0.113.9", "/", "").Code, 429)
}
