package recipes

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

const stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a usage\"}}],\"usage\":null}\n\n" + ": a comment\n\n" +
	"data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\":{\\\"total_tokens\\\":1}\"}}]}\r\n\r\n" +
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":30,\"total_tokens\":4200}}\n\n" +
	"data: [DONE]\n\n"

// limitCompletions returns a server of completions over an upstream, and the number of tokens that were charged, which is known once
// the server is closed.
func limitCompletions(t *testing.T, upstream http.HandlerFunc) (server *httptest.Server, charged func() int) {
	t.Helper()
	behind := httptest.NewServer(upstream)
	t.Cleanup(behind.Close)
	at := must.Get(url.Parse(behind.URL))(t)
	rule := tokens(keyfunc.RemoteIP)
	rule.Routes = []string{"POST /v1/chat/completions"}
	rule.Limits = []core.Limit{core.PerYear(100_000)}
	l := core.Must(core.New([]core.Rule{rule}))
	server = httptest.NewServer(stdlib.New(l)(completions(at)))
	t.Cleanup(server.Close)
	return server, func() int {
		server.Close()
		return 100_000 - must.Get(l.UsageOf(t.Context(), "tokens", "ip:127.0.0.1"))(t).Results[0].Remaining
	}
}

func complete(t *testing.T, server *httptest.Server, body string) string {
	t.Helper()
	resp := must.Get(http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(body)))(t)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // a stream may end early
	return string(text)
}

func TestUsageInResponses(t *testing.T) {
	for _, row := range []struct{ name, body, kind, answer, asked string }{
		{"a stream", `{"model":"m","stream":true,"stream_options":{"include_usage":false}}`, "text/event-stream", stream, `"include_usage":true`},
		{"no stream", `{"model":"m","seed":9007199254740993}`, "application/json", "{\n  \"choices\": [],\n  \"usage\": {\"total_tokens\": 4200}\n}\n", `"seed":9007199254740993`},
	} {
		t.Run(row.name, func(t *testing.T) {
			server, charged := limitCompletions(t, func(w http.ResponseWriter, r *http.Request) {
				if asked, _ := io.ReadAll(r.Body); !strings.Contains(string(asked), row.asked) {
					t.Errorf("the upstream was asked %s, want %s in it", asked, row.asked)
				}
				w.Header().Set("Content-Type", row.kind)
				_, _ = io.WriteString(w, row.answer)
			})
			expect.Equal(t, complete(t, server, row.body), row.answer, "complete(t, server, row.body)")
			expect.Equal(t, charged(), 4200, "charged")
		})
	}
}

// A stream that ends before its usage costs the estimate and the tokens received so far.
func TestUsageOfAnInterruptedStream(t *testing.T) {
	server, charged := limitCompletions(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream[:strings.Index(stream, "prompt_tokens")])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	complete(t, server, `{"stream":true}`)
	expect.Equal(t, charged(), estimated+2, "charged")
}

func TestUsageOfBadRequests(t *testing.T) {
	server, charged := limitCompletions(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was asked") })
	for _, body := range []string{"", "null", "[]", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`} {
		expect.Contains(t, complete(t, server, body), "want a JSON object", "%.9q", body)
	}
	expect.Equal(t, charged(), 4*estimated, "charged (the estimates)")
}

// The reader passes on what it reads, wherever a read or the stream ends. It reports the usage as soon as it has the whole line.
func TestUsageIsFoundAcrossReads(t *testing.T) {
	whole := strings.Index(stream, "4200}}\n") + len("4200}}")
	for end := range len(stream) + 1 {
		for cut := range end + 1 {
			if end < len(stream) && cut < end-2 {
				continue
			}
			var cost int
			l := core.Must(core.New([]core.Rule{{Name: "tokens", Key: keyfunc.Const("all"), Limits: []core.Limit{core.PerYear(100_000)},
				Cost: func(*http.Request) int { return estimated }, CostAfter: func(_ *http.Request, o core.Outcome) int { cost = o.Cost; return o.Cost }}}))
			h := stdlib.New(l)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				parts := io.MultiReader(strings.NewReader(stream[:cut]), strings.NewReader(stream[cut:end]))
				u := &usageReader{ReadCloser: io.NopCloser(iotest.DataErrReader(parts)), ctx: r.Context(), isStream: true}
				got, err := io.ReadAll(u)
				must.True(t, string(got) == stream[:end] && err == nil, "%d of %d: got %q, %v", cut, end, got, err)
			}))
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
			if end >= whole && cost != 4200 || end < whole && (cost < estimated || cost > estimated+3) {
				t.Fatalf("cut at %d and %d: cost %d", cut, end, cost)
			}
		}
	}
}

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
			expect.Equal(t, time.Since(begun), want, "webhook %d was served after", i)
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
			expect.Equal(t, w.Code, want, "w.Code")
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
			resp := must.Get(c.Get("https://partner.example/"))(t)
			must.Equal(t, resp.StatusCode, 200, "%v", resp)
			resp.Body.Close()
			expect.AtLeast(t, time.Since(begun), time.Second, "served after a denial (a pause of a second at least)")
		}
		expect.Equal(t, sent, 3, "requests sent")
	})
}

func TestSellAPlan(t *testing.T) {
	customer := keyfunc.User(func(r *http.Request) (string, bool) { return r.Header.Get("Customer"), r.Header.Get("Customer") != "" })
	bought := Plan{PerMonth: 3, BillingDay: 15, Zone: "Europe/Berlin"}
	served := 0
	h, limiter, err := sell(customer, func(*http.Request) Plan { return bought }, new(core.MemoryStore), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	must.Do(t, err)
	call := func(customer, path string, want int) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Customer", customer)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		expect.Equal(t, w.Code, want, "%s of %s", path, customer)
		return w
	}
	for range 3 {
		call("ann", "/orders", 200)
	}
	call("ann", "/orders", 429)
	call("partner", "/orders", 200)
	month := core.PerMonth(bought.PerMonth).In(bought.Zone).From(bought.BillingDay)
	must.Do(t, goodwill(t.Context(), limiter, "user:ann", month, core.PerDay(2000).In(bought.Zone)))
	for range 10 {
		call("ann", "/orders", 200)
	}
	var usage struct {
		Resources map[string]struct{ Used, Limit, Remaining int }
	}
	for range 3 {
		must.Do(t, json.Unmarshal(call("ann", "/usage", 200).Body.Bytes(), &usage))
		got := usage.Resources["plan"]
		expect.True(t, got.Remaining == 1990 && got.Limit == got.Used+got.Remaining, "usage: got %+v, want 1990 remaining", got)
	}
	call("", "/usage", 401)
	expect.Equal(t, served, 14, "requests served")
}
