package recipes

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

const stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a usage\"}}],\"usage\":null}\n\n" +
	": a comment\n\n" +
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
		d := must.Get(l.UsageOf(t.Context(), "tokens", "ip:127.0.0.1"))(t)
		return 100_000 - d.Results[0].Remaining
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
			if got := complete(t, server, row.body); got != row.answer {
				t.Errorf("got %q, want %q", got, row.answer)
			}
			if got := charged(); got != 4200 {
				t.Errorf("charged %d, want 4200", got)
			}
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
	if got := charged(); got != estimated+2 {
		t.Errorf("charged %d, want %d", got, estimated+2)
	}
}

func TestUsageOfBadRequests(t *testing.T) {
	server, charged := limitCompletions(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was asked") })
	for _, body := range []string{"", "null", "[]", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`} {
		if got := complete(t, server, body); !strings.Contains(got, "want a JSON object") {
			t.Errorf("%.9q: got %q", body, got)
		}
	}
	if got := charged(); got != 4*estimated {
		t.Errorf("charged %d, want the estimates", got)
	}
}

// The reader passes on what it reads, wherever a read or the stream ends. It reports the usage as soon as it has the whole
// line.
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
				if got, err := io.ReadAll(u); string(got) != stream[:end] || err != nil {
					t.Fatalf("%d of %d: got %q, %v", cut, end, got, err)
				}
			}))
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
			if end >= whole && cost != 4200 || end < whole && (cost < estimated || cost > estimated+3) {
				t.Fatalf("cut at %d and %d: cost %d", cut, end, cost)
			}
		}
	}
}
