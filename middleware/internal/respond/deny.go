package respond

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/fields"
)

// A denial is the response to one kind of denied request: a Problem without the violated policies, and the JSON before
// and after them. So the parts that are always the same are not marshalled again.
type denial struct {
	problem    Problem
	title      []byte // problem.Title
	summary    any    // problem.Title: a conversion would allocate
	head, tail []byte
	bodies     [64]atomic.Pointer[body] // cache of bodies with one policy
}

// A body is the JSON of a denial by one policy.
type body struct {
	policy string
	json   []byte // without spare capacity
}

var seed = maphash.MakeSeed()

// body returns the JSON of a denial that violates these policies. Responses share it, so nothing may change it; an
// io.Writer must not modify its argument anyway.
func (k *denial) body(violated []string) []byte {
	if len(violated) == 0 { // a handler has made the decision itself
		return k.problem.body()
	}
	if len(violated) != 1 {
		return k.append(make([]byte, 0, len(k.head)+len(k.tail)+nameRoom*len(violated)), violated)
	}
	p := &k.bodies[maphash.String(seed, violated[0])%uint64(len(k.bodies))]
	b := p.Load()
	if b == nil || b.policy != violated[0] {
		b = &body{violated[0], slices.Clip(k.append(nil, violated))}
		p.Store(b)
	}
	return b.json
}

// nameRoom is the length in bytes that most policy names do not exceed.
const nameRoom = 24

var (
	tooMany  = newDenial(http.StatusTooManyRequests, "Too many requests in too short a time; retry later.")
	usedUp   = newDenial(http.StatusTooManyRequests, "The quota is used up; retry later.")
	closed   = newDenial(http.StatusTooManyRequests, "Such requests are not allowed; a retry does not help.")
	tooLarge = newDenial(http.StatusRequestEntityTooLarge, "The request costs more than is ever admitted at once; a retry does not help.")
)

func newDenial(status int, detail string) *denial {
	p := Problem{Type: exceeded, Title: http.StatusText(status), Status: status, Detail: detail, Message: "API rate limit exceeded"}
	example := p
	example.Violated = []string{"?"}
	head, tail, _ := bytes.Cut(example.body(), []byte(`"?"`))
	return &denial{problem: p, title: []byte(p.Title), summary: p.Title, head: head, tail: tail}
}

// denialOf returns the kind of d, by the limit that headers show: closed if its rate is 0, tooLarge if the cost exceeds its
// capacity and what is granted, or else usedUp or tooMany.
func denialOf(d *core.Decision) *denial {
	t, _ := d.Tightest()
	switch {
	case t.RetryAfter == core.Never && t.Limit.Capacity() == 0:
		return closed
	case t.RetryAfter == core.Never && fields.IsTooLarge(d):
		return tooLarge
	case isQuota(&t.Limit):
		return usedUp
	}
	return tooMany
}

// isQuota reports whether l counts in a window of a day or more. A bucket refills all the time, however long its period is.
func isQuota(l *core.Limit) bool {
	return l.Calendar.Unit != 0 || l.Algorithm != core.TokenBucket && l.Period >= 24*time.Hour
}

// Deny responds to r, which d denies, as Problem.Write would. Its header values are not shared with other responses.
func Deny(w http.ResponseWriter, r *http.Request, d *core.Decision) {
	if DenyCall(w, r, d) {
		return
	}
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
	_, _ = w.Write(kind.body(headers.AppendViolated(room[:0], *d))) // the client may have disconnected
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
