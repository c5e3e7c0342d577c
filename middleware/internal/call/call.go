// Package call speaks the protocols of gRPC and Connect as far as a limiter needs them: it recognizes their calls, responds
// to a call with a status (status.go), and finds the status in the response to a call (response.go).
package call

import (
	"net/http"
	"strings"
)

// A Protocol is the protocol of a call.
type Protocol byte

// The protocols. Their comments say where the status of a call is.
const (
	None    Protocol = iota // not a call
	GRPC                    // in the trailer or the header
	GRPCWeb                 // in the last frame or the header
	Stream                  // of Connect: in the last envelope
	Unary                   // of Connect: the HTTP status
)

// Of returns the protocol of r. Most requests are not calls, so it reads the content type only if that may be a call's.
func Of(r *http.Request) Protocol {
	switch r.Method {
	case http.MethodGet:
		if q := r.URL.RawQuery; q != "" && strings.Contains(q, "connect=v1") && r.URL.Query().Get("connect") == "v1" {
			return Unary
		}
	case http.MethodPost:
		const application = "application/"
		if t := first(r.Header["Content-Type"]); len(t) > len(application) && strings.IndexByte("gGcC", t[len(application)]) >= 0 {
			t = strings.ToLower(t)
			switch rest, ok := strings.CutPrefix(t, application+"grpc"); {
			case ok && (rest == "" || strings.IndexByte("+; \t", rest[0]) >= 0):
				return GRPC
			case ok && strings.HasPrefix(rest, "-web"):
				return GRPCWeb
			case strings.HasPrefix(t, application+"connect+"):
				return Stream
			}
		}
		if first(r.Header["Connect-Protocol-Version"]) == "1" {
			return Unary
		}
	}
	return None
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// A Code is a code of gRPC.
type Code int

// The codes that a limiter uses.
const (
	unknown           Code = 2
	InvalidArgument   Code = 3
	ResourceExhausted Code = 8
	Internal          Code = 13
	Unavailable       Code = 14
)

// names are the names of the codes in Connect. The documentation of google.rpc.Code has the HTTP statuses.
var names = [...]string{"ok", "canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
	"permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented", "internal",
	"unavailable", "data_loss", "unauthenticated"}
var statuses = [len(names)]int{200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}

// HTTPStatus returns the HTTP status of c. A code that does not exist counts as unknown.
func (c Code) HTTPStatus() int {
	if c < 0 || int(c) >= len(statuses) {
		c = unknown
	}
	return statuses[c]
}

// MarshalText returns the name of c.
func (c Code) MarshalText() ([]byte, error) { return []byte(names[c]), nil }
