package call

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A Status is the response to a call that is not admitted. In JSON, it is an error of Connect.
type Status struct {
	Code     Code     `json:"code"`
	Message  string   `json:"message"` // printable ASCII without "%": headers need no escapes
	Details  []Detail `json:"details,omitempty"`
	Pushback string   `json:"-"` // grpc-retry-pushback-ms: when gRPC's own retries call again
}

// A Detail is a message of google/rpc/error_details.proto, encoded as protobuf.
type Detail struct {
	Type  string `json:"type"` // such as "google.rpc.RetryInfo"
	Value raw    `json:"value"`
}

// URL returns the URL of d's type.
func (d Detail) URL() string { return "type.googleapis.com/" + d.Type }

// raw is encoded in base64 without padding, which gRPC and Connect ask for.
type raw []byte

func (b raw) MarshalText() ([]byte, error) { return base64.RawStdEncoding.AppendEncode(nil, b), nil }

// maxPushback bounds how long clients sleep before they retry. They would sleep until tomorrow for a daily quota.
const maxPushback = 60_000

// NewStatus returns a status with a RetryInfo, unless wait is core.Never, and a QuotaFailure with the rules that deny the call.
func NewStatus(code Code, message string, wait time.Duration, rules []string) Status {
	s := Status{Code: code, Message: message, Pushback: "-1"}
	if wait != core.Never {
		ms := int64(wait / time.Millisecond)
		if wait%time.Millisecond > 0 {
			ms++
		}
		delay := number(number(nil, 1, ms/1000), 2, ms%1000*1_000_000)
		s.Details = append(s.Details, Detail{"google.rpc.RetryInfo", field(nil, 1, delay)})
		if ms <= maxPushback {
			s.Pushback = strconv.FormatInt(ms, 10)
		}
	}
	var violations []byte
	for _, rule := range rules {
		violations = field(violations, 1, field(nil, 1, []byte(rule)))
	}
	if violations != nil {
		s.Details = append(s.Details, Detail{"google.rpc.QuotaFailure", violations})
	}
	return s
}

// Proto returns s as a google.rpc.Status, encoded as protobuf.
func (s Status) Proto() []byte {
	b := field(number(nil, 1, int64(s.Code)), 2, []byte(s.Message))
	for _, d := range s.Details {
		b = field(b, 3, field(field(nil, 1, []byte(d.URL())), 2, d.Value))
	}
	return b
}

// field appends a field that is bytes, a string or a message.
//
//go:noinline
func field(b []byte, id byte, value []byte) []byte {
	return append(binary.AppendUvarint(append(b, id<<3|2), uint64(len(value))), value...)
}

// number appends a field that is an integer; 0 is left out.
//
//go:noinline
func number(b []byte, id byte, value int64) []byte {
	if value == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, id<<3), uint64(value))
}

// Write responds to r, which is a call. For gRPC, it writes no body: HTTP/2 then sends a single HEADERS frame, and clients retry
// no other response.
func (s Status) Write(w http.ResponseWriter, r *http.Request) {
	h, p, status := w.Header(), Of(r), http.StatusOK
	h["Content-Type"] = []string{first(r.Header["Content-Type"])}
	var body []byte
	switch p {
	case Unary:
		h["Content-Type"], status = []string{"application/json"}, s.Code.HTTPStatus()
		body, _ = json.Marshal(s) // texts: cannot fail
	case Stream:
		body, _ = json.Marshal(map[string]Status{"error": s})
		body = append(binary.BigEndian.AppendUint32([]byte{streamEnd}, uint32(len(body))), body...)
	default:
		h.Set("Grpc-Status", strconv.Itoa(int(s.Code)))
		h.Set("Grpc-Message", s.Message)
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(s.Proto()))
		h.Set("Grpc-Retry-Pushback-Ms", s.Pushback)
	}
	w.WriteHeader(status)
	if body != nil {
		_, _ = w.Write(body) // the client may have disconnected
	}
}
