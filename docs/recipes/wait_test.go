package recipes

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A network answers each request with a status.
type network func(*http.Request) (status int)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: n(r), Header: make(http.Header), Body: http.NoBody, Request: r}, nil
}

func TestWebhooksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stdlib.New(core.Must(core.New([]core.Rule{webhooks(keyfunc.Const("tenant"))})))(http.NotFoundHandler())
		begun := time.Now()
		for i, want := range []time.Duration{9: 0, 10: 100 * time.Millisecond, 11: 200 * time.Millisecond} {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/webhooks", nil))
			if got := time.Since(begun); got != want {
				t.Errorf("webhook %d was served after %v, want %v", i, got, want)
			}
		}
	})
}

func TestServerStopsWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.New([]core.Rule{{Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerHour(1)}, MaxWait: time.Hour}}))
		server, stop := waitingServer("", limiter, http.NotFoundHandler())
		time.AfterFunc(time.Second, stop)
		for _, want := range []int{404, 503} {
			w := httptest.NewRecorder()
			server.Handler.ServeHTTP(w, httptest.NewRequestWithContext(server.BaseContext(nil), "GET", "/", nil))
			if w.Code != want {
				t.Errorf("got %d, want %d", w.Code, want)
			}
		}
	})
}

func TestCrawlerFetchesOnePagePerSecond(t *testing.T) {
	before := http.DefaultClient
	t.Cleanup(func() { http.DefaultClient = before })
	http.DefaultClient = &http.Client{Transport: network(func(*http.Request) int { return 200 })}
	synctest.Test(t, func(t *testing.T) {
		c := must.Get(newCrawler())(t)
		begun := time.Now()
		for i := range 3 {
			for _, host := range []string{"a.example", "b.example"} {
				resp, err := c.fetch(t.Context(), host, "/")
				if want := time.Duration(i) * time.Second; err != nil || resp.StatusCode != 200 || time.Since(begun) != want {
					t.Errorf("%s: %v after %v, want %v", host, err, time.Since(begun), want)
				}
			}
		}
	})
}

func TestFleetPausesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(core.MemoryStore)
		sent, deny := 0, true
		partner := network(func(*http.Request) int {
			if sent++; deny {
				deny = false
				return 429
			}
			return 200
		})
		begun := time.Now()
		for range 2 { // processes
			c := must.Get(partnerClient(store))(t)
			c.Transport.(*client.Transport).Base = partner
			resp, err := c.Get("https://partner.example/")
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%v, %v", resp, err)
			}
			resp.Body.Close()
			if d := time.Since(begun); d < time.Second {
				t.Errorf("served %v after a denial, want a pause of a second at least", d)
			}
		}
		if sent != 3 {
			t.Errorf("%d requests were sent, want 3", sent)
		}
	})
}
