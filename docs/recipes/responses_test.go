package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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

func TestDenialsInTheClientsLanguage(t *testing.T) {
	for accept, message := range map[string]string{
		"de-AT, en;q=0.5": "Zu viele Anfragen. Bitte warten Sie 20 Sekunden.",
		"ja, fr;q=0.8":    "Trop de requêtes. Veuillez patienter 20 secondes.",
		"":                "Too many requests. Please wait 20 seconds.",
	} {
		h := translated(core.Must(core.New([]core.Rule{core.PerMinute(3).By(keyfunc.RemoteIP)})))(ok)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Language", accept)
		var w *httptest.ResponseRecorder
		for range 4 {
			w = httptest.NewRecorder()
			h.ServeHTTP(w, r)
		}
		var body map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 429 || body["message"] != message || body["retry_after"] != 20.0 ||
			w.Header().Get("Retry-After") != "20" {
			t.Errorf("%s: got %d, %v, %s, %v", accept, w.Code, w.Header(), w.Body, err)
		}
	}
	never := translated(core.Must(core.New([]core.Rule{core.PerMinute(0).By(keyfunc.RemoteIP)})))(ok)
	w := httptest.NewRecorder()
	if never.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != 429 || !strings.Contains(w.Body.String(), "problem-types") {
		t.Errorf("a limit of 0: got %d, %s", w.Code, w.Body)
	}
}

func TestAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		trial := core.Rule{Name: "trial", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerMinute(1)}, DryRun: true}
		h := stdlib.New(must.Get(audited([]core.Rule{core.PerMinute(3).By(keyfunc.RemoteIP), trial}, &out))(t))(ok)
		want(t, "admitted", admitted(h, 5, someone, "/"), 3)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || len(lines) != 2 ||
			line["key"] != "ip:203.0.113.9" || line["rule"] != "default" || line["limit"] != "3/1m" {
			t.Errorf("got %v, %s", err, out.String())
		}
		admitted(h, 3000, someone, "/")
		expect.Equal(t, strings.Count(out.String(), "\n"), 1000, "lines in a second")
	})
}

// Three event streams of a user are open at once, and closing one makes room for another.
func TestEventStreams(t *testing.T) {
	news := make(chan string)
	h, _ := limited(func(w http.ResponseWriter, r *http.Request) { events(w, r, news) }, streams(keyfunc.Header("X-User")))
	s := httptest.NewServer(h)
	defer s.Close()
	open := func() (*http.Response, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/events", nil))(t)
		r.Header.Set("X-User", "ann")
		return must.Get(s.Client().Do(r))(t), cancel
	}
	var cancels []context.CancelFunc
	for i := range 3 {
		resp, cancel := open()
		cancels = append(cancels, cancel)
		want(t, "stream", resp.StatusCode, http.StatusOK)
		if i == 0 {
			news <- "hello"
			buffer := make([]byte, len("data: hello\n\n"))
			_, err := io.ReadFull(resp.Body, buffer)
			expect.True(t, err == nil && string(buffer) == "data: hello\n\n", "got %q, %v", buffer, err)
		}
	}
	resp, cancel := open()
	want(t, "the fourth", resp.StatusCode, http.StatusTooManyRequests)
	cancel()
	cancels[0]()
	deadline := time.Now().Add(20 * time.Second)
	for resp.StatusCode != http.StatusOK && time.Now().Before(deadline) {
		resp, cancel = open()
		cancels = append(cancels, cancel)
	}
	want(t, "after one has ended", resp.StatusCode, http.StatusOK)
	for _, cancel := range cancels {
		cancel()
	}
}

func TestMessagesOfAWebSocket(t *testing.T) {
	messages := must.Get(perMessage())(t)
	handled := 0
	next := func() (string, error) { return "hi", nil }
	err := read(t.Context(), messages, "user:ann", next, func(string) { handled++ })
	expect.True(t, errors.Is(err, errTooFast) && handled >= 20 && handled <= 25, "%d messages handled, %v; want about 20", handled, err)
}

func TestGraphQL(t *testing.T) {
	points := must.Get(points())(t)
	complexity := func(r *http.Request) (int, error) { return len(r.URL.Query().Get("query")), nil }
	h := graphQL(points, keyfunc.RemoteIP, complexity, ok)
	query := func(n int) string { return "/?query=" + strings.Repeat("x", n) }
	want(t, "a query", get(h, someone, query(4000)), 200)
	want(t, "one that is too much now", get(h, someone, query(2000)), 429)
	want(t, "a smaller one", get(h, someone, query(500)), 200)
	want(t, "one that is always too much", get(h, someone, query(6000)), 413)
}

// Free clients are denied when 60 requests of any clients are in flight, and customers when 100 are.
func TestFreeClientsAreShedFirst(t *testing.T) {
	entered, done := make(chan struct{}), make(chan struct{})
	h, _ := limited(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			entered <- struct{}{}
			<-done
		}
	}, shed(func(r *http.Request) bool { return r.Header.Get("X-Plan") == "pro" }))
	ended := make(chan int)
	occupy := func(n int, plan string) {
		for range n {
			go func() { ended <- get(h, someone, "/slow", "X-Plan", plan) }()
			<-entered
		}
	}
	occupy(40, "pro")
	want(t, "free with 40 in flight", get(h, someone, "/", "X-Plan", "free"), 200)
	occupy(20, "free")
	want(t, "free with 60 in flight", get(h, someone, "/", "X-Plan", "free"), 429)
	want(t, "pro with 60 in flight", get(h, someone, "/", "X-Plan", "pro"), 200)
	occupy(40, "pro")
	want(t, "pro with 100 in flight", get(h, someone, "/", "X-Plan", "pro"), 429)
	close(done)
	for range 100 {
		want(t, "in flight", <-ended, 200)
	}
	want(t, "free afterwards", get(h, someone, "/", "X-Plan", "free"), 200)
}

func TestWebhooks(t *testing.T) {
	received := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received++ }))
	defer s.Close()
	c := must.Get(newCourier())(t)
	var later laterError
	for range 30 {
		err := c.send(t.Context(), "acme", s.URL, "{}")
		must.True(t, err == nil || errors.As(err, &later), "%v", err)
	}
	expect.True(t, received >= 10 && received <= 29 && later.wait > 0, "%d received, last wait %v; want some denied", received, later.wait)
}
