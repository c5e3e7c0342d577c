package respond

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// A Page is a Problem for frameworks that ask their errors to marshal themselves. Marshalling sets the content type in
// Header. So a response that renders something else does not get it.
type Page struct {
	Problem
	Header http.Header
}

// MarshalJSON implements json.Marshaler.
func (p Page) MarshalJSON() ([]byte, error) {
	p.Header.Set("Content-Type", ContentType)
	if p.kind != nil {
		return p.kind.append(make([]byte, 0, 512), p.Violated), nil
	}
	return json.Marshal(p.Problem)
}

// Fields is a Problem for frameworks that marshal any struct. It does what a Page does, but encoding/json does not have to
// check the JSON of a whole Page.
type Fields struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   status   `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
	Message  string   `json:"message"`
}

// Fields returns p as Fields. Marshalling it sets the content type in h.
func (p *Problem) Fields(h http.Header) *Fields {
	return &Fields{p.Type, p.Title, status{p.Status, h}, p.Detail, p.Violated, p.Message}
}

// String names the problem in logs.
func (f *Fields) String() string { return describe(f.Message, f.Violated) }

// status is a number that sets the content type when it is marshalled.
type status struct {
	code   int
	header http.Header
}

// MarshalJSON implements json.Marshaler.
func (s status) MarshalJSON() ([]byte, error) {
	s.header.Set("Content-Type", ContentType)
	return strconv.AppendInt(nil, int64(s.code), 10), nil
}
