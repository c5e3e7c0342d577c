// Package respond renders the response of all adapters to a request that is not admitted: an RFC 9457 problem or, to a call
// of gRPC or Connect, a status (call.go). The texts of a 400, 500 and 503 are in problem.go, and the texts of a 429 and 413
// in deny.go.
package respond

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spillgate/spillgate/core"
)

// ContentType is the content type of a rendered Problem.
const ContentType = "application/problem+json"

// The types of draft-ietf-httpapi-ratelimit-headers, section "Problem Types".
const (
	exceeded        = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// unavailableRetry is the Retry-After of a 503, in seconds: about how long a store takes to fail over.
const unavailableRetry = 5

// A Problem is the response to a request that is not admitted. Nothing in it comes from a key, a store or an error.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
	Message  string   `json:"message"` // for clients written for GitHub

	retryAfter string
}

// Failure returns the response to a request that could not be decided.
func Failure(err error) Problem {
	p := Problem{Type: "about:blank", Status: http.StatusInternalServerError, Detail: "The request could not be checked."}
	switch {
	case errors.Is(err, core.ErrUnavailable): // first, because an error of a store may wrap any other
		p.Type = reducedCapacity
		p.Status = http.StatusServiceUnavailable
		p.Detail = "The request cannot be checked at the moment; retry later."
		p.retryAfter = strconv.Itoa(unavailableRetry)
	case errors.Is(err, core.ErrNoKey):
		p.Status = http.StatusBadRequest
		p.Detail = "The request has no key: credentials or an address are missing."
	case errors.Is(err, core.ErrBadKey):
		p.Status = http.StatusBadRequest
		p.Detail = "The key of the request is ambiguous or malformed, such as a credential that was sent twice."
	}
	p.Title = http.StatusText(p.Status)
	p.Message = p.Title
	return p
}

// String names the problem in logs.
func (p Problem) String() string { return describe(p.Message, p.Violated) }

func describe(message string, violated []string) string {
	if len(violated) > 0 {
		return fmt.Sprintf("%s %v", message, violated)
	}
	return message
}

const noStore = "no-store"

// NoStore prevents caches from storing a denial and serving it to other clients. It also applies to an application's
// own response.
func NoStore(h http.Header) { h["Cache-Control"] = []string{noStore} }

// Announce sets the header fields that belong to p, however p is rendered.
func (p Problem) Announce(h http.Header) {
	NoStore(h)
	if p.retryAfter != "" {
		h.Set("Retry-After", p.retryAfter)
	}
}

// Write renders p as the response to r, or as the status of r if r is a call. A HEAD request gets no body.
func (p Problem) Write(w http.ResponseWriter, r *http.Request) {
	if p.WriteCall(w, r) {
		return
	}
	p.Announce(w.Header())
	if r.Method == http.MethodHead {
		w.WriteHeader(p.Status)
		return
	}
	w.Header().Set("Content-Type", ContentType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.body()) // the client may be gone
}

func (p Problem) body() []byte {
	body, _ := json.Marshal(p) // strings and a number: cannot fail
	return append(body, '\n')
}
