package responses

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// upstream is an application that has limits of its own.
func upstream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-RateLimit-Remaining", "4711")
	w.Header().Set("X-From", r.URL.Path)
	w.Header().Set("Trailer", "X-Sum")
	_, _ = io.WriteString(w, "ok")
	w.Header().Set("X-Sum", "42")
}

// withoutLimits is a ModifyResponse for a ReverseProxy that removes an upstream's rate limit headers.
func withoutLimits(resp *http.Response) error {
	for _, name := range headers.Expose {
		resp.Header.Del(name)
	}
	return nil
}

// TestReverseProxy checks a limiter in front of a proxy whose upstream has limits of its own. A ReverseProxy adds the
// upstream's header fields to the existing ones, so the response has both. Ours come first, and clients read these. To send
// only one, remove the other with ModifyResponse or headers.None.
func TestReverseProxy(t *testing.T) {
	for _, row := range []struct {
		why    string
		modify func(*http.Response) error
		writer headers.Writer
		want   []string
	}{
		{"both are shown", nil, nil, []string{"0", "4711"}},
		{"ours alone", withoutLimits, nil, []string{"0"}},
		{"the upstream's alone", nil, headers.None, []string{"4711"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			each(t, func(t *testing.T, f apps.Framework, http2 bool) {
				to := must.Get(url.Parse(wire.Serve(t, http.HandlerFunc(upstream), false).URL))(t)
				p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ModifyResponse: row.modify}
				guard := apps.Guard{Limiter: wire.PerHour(1), Headers: row.writer}
				s := wire.Serve(t, f.Build(apps.One(guard, p.ServeHTTP)), http2)
				got := s.Get("/")
				got.WantStatus(t, 200)
				expect.Elements(t, got.Header.Values("X-RateLimit-Remaining"), row.want, "Remaining")
				expect.True(t, got.Body == "ok" && got.Header.Get("X-From") == "/" && got.Trailer.Get("X-Sum") == "42",
					"body %q, header %v, trailers %v", got.Body, got.Header, got.Trailer)
				if got = s.Get("/"); got.StatusCode != 429 || got.Header.Get("X-From") != "" {
					t.Errorf("denied: status %d, header %v; want the upstream not to be asked", got.StatusCode, got.Header)
				}
			})
		})
	}
}
