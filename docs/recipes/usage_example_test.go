package recipes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/spillgate/spillgate/core"
)

const estimated = 2_000 // tokens, until the usage is known

// completions passes POST /v1/chat/completions on to an upstream, and charges what the usage in the answer says. The
// limiter in front of it has the rule "tokens".
func completions(upstream *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.Out.Header.Del("Accept-Encoding") // the Transport then decompresses the answer
		},
		ModifyResponse: func(resp *http.Response) error {
			isStream := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
			resp.Body = &usageReader{ReadCloser: resp.Body, ctx: resp.Request.Context(), isStream: isStream}
			return nil
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call map[string]json.RawMessage
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&call); err != nil || call == nil {
			http.Error(w, "want a JSON object of at most 1 MiB", http.StatusBadRequest)
			return
		}
		if string(call["stream"]) == "true" { // a client that asks for no usage is charged, too
			call["stream_options"] = json.RawMessage(`{"include_usage":true}`)
		}
		body, _ := json.Marshal(call)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	})
}

// A usageReader passes an answer on and reports its usage. Until the usage comes, each event of a stream counts as a token.
type usageReader struct {
	io.ReadCloser
	ctx      context.Context
	isStream bool
	text     []byte // of the current line of a stream, or of the whole answer
	events   int
	known    bool
}

const maxText = 1 << 20

func (u *usageReader) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	for rest := p[:n]; len(rest) > 0; { // a read may end at any byte
		line, after, ended := rest, []byte(nil), false
		if u.isStream {
			line, after, ended = bytes.Cut(rest, []byte("\n"))
		}
		if rest = after; len(u.text) <= maxText {
			u.text = append(u.text, line...)
		}
		if ended {
			u.report()
		}
	}
	if err == io.EOF {
		u.report()
	}
	return n, err
}

// report reports the usage in the text, and starts the next one.
func (u *usageReader) report() {
	data, isEvent := bytes.CutPrefix(u.text, []byte("data:"))
	var answer struct {
		Usage *struct {
			Total int `json:"total_tokens"`
		}
	}
	err := json.Unmarshal(data, &answer)
	u.text = u.text[:0]
	switch {
	case err == nil && answer.Usage != nil:
		u.known = true
		core.SetCost(u.ctx, "tokens", answer.Usage.Total)
	case isEvent && !u.known:
		u.events++
		core.SetCost(u.ctx, "tokens", estimated+u.events)
	}
}
