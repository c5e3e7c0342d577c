package respond

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// A Page is a problem for frameworks whose error handlers marshal a value. Marshalling it sets the content type, so
// that an error handler that writes something else does not get this content type. Pages share nothing with each other.
type Page struct {
	Type     string    `json:"type"`
	Title    announced `json:"title"`
	Status   int       `json:"status"`
	Detail   string    `json:"detail"`
	Violated []string  `json:"violated-policies,omitempty"`
	Message  string    `json:"message"`

	kind   *denial   // of a denied request; nil for others
	name   [1]string // of Violated, for one policy
	values [2]string // of header fields
}

// An announced sets the content type when it is marshalled. It implements encoding.TextMarshaler, because encoding/json
// validates the result of a json.Marshaler, which takes time.
type announced struct {
	text   []byte
	header http.Header
	value  []string // of the content type
}

// MarshalText implements encoding.TextMarshaler.
func (a announced) MarshalText() ([]byte, error) {
	a.header["Content-Type"] = a.value
	return a.text, nil
}

// Deny sets p, which is zero, to the response to a request that d denies. h is the header of the response; see
// Problem.Announce.
func (p *Page) Deny(h http.Header, d *core.Decision) {
	p.kind = denialOf(d)
	p.set(h, &p.kind.problem, p.kind.title)
	p.Violated = headers.AppendViolated(p.name[:0], *d)
}

// Fail sets p, which is zero, to the response to a request that could not be decided.
func (p *Page) Fail(h http.Header, err error) {
	failure := Failure(err)
	failure.Announce(h)
	p.set(h, &failure, []byte(failure.Title))
}

func (p *Page) set(h http.Header, from *Problem, title []byte) {
	p.values = [2]string{noStore, ContentType}
	h["Cache-Control"] = p.values[0:1:1]
	p.Title = announced{text: title, header: h, value: p.values[1:2:2]}
	p.Type, p.Status, p.Detail, p.Message = from.Type, from.Status, from.Detail, from.Message
}

// Summary returns the title, a string, for an error of the framework.
func (p *Page) Summary() any {
	if p.kind != nil {
		return p.kind.summary
	}
	return string(p.Title.text)
}

// JSON returns p as JSON. For a denial, it marshals at most the names of the policies.
func (p *Page) JSON() ([]byte, error) {
	if p.kind == nil {
		return json.Marshal(p)
	}
	_, _ = p.Title.MarshalText()
	return bytes.Clone(p.kind.body(p.Violated)), nil
}

// String names the problem in logs.
func (p *Page) String() string { return describe(p.Message, p.Violated) }
