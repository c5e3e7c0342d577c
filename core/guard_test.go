package core_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// guard returns what an adapter without a router passes on and shows.
func guard(l *core.Limiter, r *http.Request) (*http.Request, core.Decision, error) {
	g, err := l.Guard(r.Context(), r, nil)
	return g.Request(), g.Decision(), err
}

// unlimited returns a limiter that admits all requests.
func unlimited() *core.Limiter { return core.Must(core.New([]core.Rule{perHour("a", 1_000_000)})) }

// served returns r after f has handled what two nested limiters pass on.
func served(r *http.Request, f func(*http.Request)) *http.Request {
	outer, _ := unlimited().Guard(r.Context(), r, nil)
	defer outer.End()
	inner, _ := unlimited().Guard(outer.Request().Context(), outer.Request(), nil)
	defer inner.End()
	f(inner.Request())
	return r
}

// TestEndTakesOverEachChange changes one field of the request at a time. The caller finds it in its own request, and its
// own context.
func TestEndTakesOverEachChange(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/users/{id}", func(http.ResponseWriter, *http.Request) {})
	for why, row := range map[string]struct {
		change func(*http.Request)
		seen   func(*http.Request) bool
	}{
		"a route of ServeMux": {func(r *http.Request) { mux.ServeHTTP(httptest.NewRecorder(), r) },
			func(r *http.Request) bool { return r.Pattern == "/users/{id}" && r.PathValue("id") == "7" }},
		"a path value alone": {func(r *http.Request) { r.SetPathValue("id", "8") }, func(r *http.Request) bool { return r.PathValue("id") == "8" }},
		"a parsed form": {func(r *http.Request) { _ = r.ParseForm() },
			func(r *http.Request) bool { return r.Form.Get("a") == "1" && r.PostForm != nil }},
		"a body":              {func(r *http.Request) { r.Body = http.NoBody }, func(r *http.Request) bool { return r.Body == http.NoBody }},
		"a header map":        {func(r *http.Request) { r.Header = http.Header{"A": {"1"}} }, func(r *http.Request) bool { return r.Header.Get("A") == "1" }},
		"a trailer map":       {func(r *http.Request) { r.Trailer = http.Header{"A": {"1"}} }, func(r *http.Request) bool { return r.Trailer.Get("A") == "1" }},
		"an address":          {func(r *http.Request) { r.RemoteAddr = "192.0.2.7:1" }, func(r *http.Request) bool { return r.RemoteAddr == "192.0.2.7:1" }},
		"a host":              {func(r *http.Request) { r.Host = "a.example" }, func(r *http.Request) bool { return r.Host == "a.example" }},
		"a method":            {func(r *http.Request) { r.Method = "PUT" }, func(r *http.Request) bool { return r.Method == "PUT" }},
		"a URL":               {func(r *http.Request) { u := *r.URL; u.Path = "/b"; r.URL = &u }, func(r *http.Request) bool { return r.URL.Path == "/b" }},
		"a target":            {func(r *http.Request) { r.RequestURI = "/b" }, func(r *http.Request) bool { return r.RequestURI == "/b" }},
		"a protocol":          {func(r *http.Request) { r.Proto = "HTTP/3.0" }, func(r *http.Request) bool { return r.Proto == "HTTP/3.0" }},
		"a TLS state":         {func(r *http.Request) { r.TLS = new(tls.ConnectionState) }, func(r *http.Request) bool { return r.TLS != nil }},
		"a closed connection": {func(r *http.Request) { r.Close = true }, func(r *http.Request) bool { return r.Close }},
		"a replaced form":     {func(r *http.Request) { r.PostForm = url.Values{"a": {"1"}} }, func(r *http.Request) bool { return r.PostForm.Get("a") == "1" }},
		"a query":             {func(r *http.Request) { r.Form = url.Values{"a": {"1"}} }, func(r *http.Request) bool { return r.Form.Get("a") == "1" }},
		"a multipart form":    {func(r *http.Request) { r.MultipartForm = new(multipart.Form) }, func(r *http.Request) bool { return r.MultipartForm != nil }},
		"a pattern":           {func(r *http.Request) { r.Pattern = "/p" }, func(r *http.Request) bool { return r.Pattern == "/p" }},
		"a length":            {func(r *http.Request) { r.ContentLength = 7 }, func(r *http.Request) bool { return r.ContentLength == 7 }},
		"a context in place":  {func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), word{}, 1)) }, func(r *http.Request) bool { return r.Context().Value(word{}) == 1 }},
	} {
		r := get("/users/7?a=1")
		r.Method = "POST"
		served(r, row.change)
		if !row.seen(r) {
			t.Errorf("%s: the caller does not find it: %+v", why, r)
		}
		if _, ok := core.FromContext(r.Context()); ok {
			t.Errorf("%s: the caller's context carries a decision", why)
		}
	}
}

func TestEndAfterPanic(t *testing.T) {
	r := get("/")
	defer func() {
		if v := recover(); v != "oops" || r.Pattern != "/p" {
			t.Errorf("recovered %v, pattern %q; want the panic to go on and the pattern of the handler", v, r.Pattern)
		}
	}()
	served(r, func(r *http.Request) {
		r.Pattern = "/p"
		panic("oops")
	})
}

// TestRequestServedAgainIsChargedAgain serves one request twice. In between, its handler changes it in each way that could keep
// the first decision in its context.
func TestRequestServedAgainIsChargedAgain(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("a", 5)}))
	r := get("/")
	for i, change := range []func(*http.Request){
		func(*http.Request) {},
		func(r *http.Request) { r.Pattern = "/" },
		func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), word{}, 1)) },
		func(*http.Request) {},
	} {
		g, err := l.Guard(r.Context(), r, nil)
		if d := g.Decision(); err != nil || d.Results[0].Remaining != 4-i {
			t.Fatalf("request %d: got %+v, %v; want %d left", i+1, d, err, 4-i)
		}
		change(g.Request())
		g.End()
	}
}

// TestEndOfUnchangedRequestWritesNothing serves one request in several goroutines. The race detector reports a write.
func TestEndOfUnchangedRequestWritesNothing(t *testing.T) {
	l, r := unlimited(), get("/")
	r.Body = io.NopCloser(bytes.NewReader(nil))
	done := make(chan bool)
	for range 4 {
		go func() {
			defer func() { done <- true }()
			for range 100 {
				g, _ := l.Guard(r.Context(), r, nil)
				g.End()
			}
		}()
	}
	for range 4 {
		<-done
	}
}

// uncomparable is a body that panics when it is compared.
type uncomparable []io.Reader

func (uncomparable) Read([]byte) (int, error) { return 0, io.EOF }
func (uncomparable) Close() error             { return nil }

func TestEndComparesAnyBody(t *testing.T) {
	r := get("/")
	r.Body = uncomparable{}
	served(r, func(r *http.Request) { r.Body = http.NoBody })
	if r.Body != http.NoBody {
		t.Errorf("the caller has the body %#v", r.Body)
	}
	r.Body = uncomparable{}
	served(r, func(*http.Request) {}) // does not panic
}

// TestTrailersOfServerReachTheCopy does what the body of a chunked HTTP/1 request does at its end: it adds trailers to the
// request of the server.
func TestTrailersOfServerReachTheCopy(t *testing.T) {
	r := get("/")
	r.TransferEncoding = []string{"chunked"}
	served(r, func(inner *http.Request) {
		if r.Trailer == nil {
			r.Trailer = make(http.Header)
		}
		r.Trailer.Set("X-Sum", "42")
		if inner.Trailer.Get("X-Sum") != "42" {
			t.Error("the handler finds no trailer")
		}
	})
	plain := get("/")
	served(plain, func(*http.Request) {})
	if plain.Trailer != nil {
		t.Error("a request without a chunked body has trailers")
	}
}
