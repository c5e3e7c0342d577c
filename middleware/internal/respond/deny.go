package respond

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// A denial is the answer to one kind of denied request: a Problem that lacks the violated policies, and its JSON around
// them. So a denial is written without marshalling the parts that are always the same.
type denial struct {
	problem    Problem
	title      []byte // problem.Title
	summary    any    // problem.Title: a conversion would allocate
	head, tail []byte
}

var (
	tooMany  = newDenial(http.StatusTooManyRequests, "Too many requests in too short a time; retry later.")
	closed   = newDenial(http.StatusTooManyRequests, "Such requests are not admitted; a retry does not help.")
	tooLarge = newDenial(http.StatusRequestEntityTooLarge, "The request costs more than is ever admitted at once; a retry does not help.")
)

func newDenial(status int, detail string) *denial {
	p := Problem{Type: exceeded, Title: http.StatusText(status), Status: status, Detail: detail, Message: "API rate limit exceeded"}
	example := p
	example.Violated = []string{"?"}
	head, tail, _ := bytes.Cut(example.body(), []byte(`"?"`))
	return &denial{problem: p, title: []byte(p.Title), summary: p.Title, head: head, tail: tail}
}

// denialOf returns the kind of d, which the tightest result decides: one that can never fit comes before all others.
func denialOf(d *core.Decision) *denial {
	for i := range d.Results {
		t := &d.Results[i]
		switch {
		case t.DryRun || t.RetryAfter != core.Never:
		case t.Limit.Capacity() > 0:
			return tooLarge
		default:
			return closed
		}
	}
	return tooMany
}

// bodies are buffers. An io.Writer must not keep what it is given.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// Deny answers r, which d denies, as Problem.Write would. The values of its header fields are not shared with other responses.
func Deny(w http.ResponseWriter, r *http.Request, d *core.Decision) {
	kind := denialOf(d)
	values := &[2]string{noStore, ContentType}
	h := w.Header()
	h["Cache-Control"] = values[0:1:1]
	if r.Method == http.MethodHead {
		w.WriteHeader(kind.problem.Status)
		return
	}
	h["Content-Type"] = values[1:2:2]
	w.WriteHeader(kind.problem.Status)
	var room [4]string
	body := bodies.Get().(*[]byte)
	*body = kind.append((*body)[:0], headers.AppendViolated(room[:0], *d))
	_, _ = w.Write(*body) // the client may be gone
	bodies.Put(body)
}

// append appends the JSON of a denial that violates these policies.
func (k *denial) append(b []byte, violated []string) []byte {
	b = append(b, k.head...)
	for i, name := range violated {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
	}
	return append(b, k.tail...)
}

// appendString appends s as encoding/json writes it.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			quoted, _ := json.Marshal(s) // a string: cannot fail
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
