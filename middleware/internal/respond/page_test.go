package respond

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// marshalling returns both ways to marshal a Page, by name.
func marshalling(p *Page) map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"encoding/json": func() ([]byte, error) { return json.Marshal(p) },
		"JSON":          p.JSON,
	}
}

// TestPageHasTheJSONOfTheProblem compares the JSON of a Page with the JSON of the Problem, and checks when header fields
// are set.
func TestPageHasTheJSONOfTheProblem(t *testing.T) {
	pages := map[string]func(*Page, http.Header) Problem{}
	for why, d := range map[string]core.Decision{
		"denied":             denied(core.PerHour(10), time.Second, "a"),
		"several":            denied(core.PerHour(10), time.Second, `"<x>"`, "b", "c"),
		"above the capacity": denied(core.PerHour(10), core.Never, "a"),
		"rate 0":             denied(core.PerHour(0), core.Never, "a"),
	} {
		pages[why] = func(p *Page, h http.Header) Problem {
			p.Deny(h, &d)
			return problemOf(&d)
		}
	}
	for why, err := range map[string]error{"no key": core.ErrNoKey, "other": errors.New("x")} {
		pages[why] = func(p *Page, h http.Header) Problem {
			p.Fail(h, err)
			return Failure(err)
		}
	}
	for why, page := range pages {
		for how := range marshalling(nil) {
			var p Page
			h := make(http.Header)
			want, _ := json.Marshal(page(&p, h))
			if len(h) != 1 || h.Get("Cache-Control") != noStore {
				t.Errorf("%s: header %v before it is marshalled", why, h)
			}
			got, err := marshalling(&p)[how]()
			if err != nil || string(bytes.TrimSpace(got)) != string(want) || h.Get("Content-Type") != ContentType {
				t.Errorf("%s by %s: %s of type %q, %v; want %s", why, how, got, h.Get("Content-Type"), err, want)
			}
		}
	}
}

// TestPagesShareNothing changes the header fields of one Page, and checks the next Page.
func TestPagesShareNothing(t *testing.T) {
	d := denied(core.PerHour(1), time.Second, "a")
	for range 2 {
		var p Page
		h := make(http.Header)
		p.Deny(h, &d)
		if _, err := json.Marshal(&p); err != nil {
			t.Fatal(err)
		}
		if h.Add("Cache-Control", "private"); h.Get("Content-Type") != ContentType {
			t.Fatalf("got %v", h)
		}
		if p.Violated[0] != "a" {
			t.Fatalf("violated %q", p.Violated)
		}
		h["Cache-Control"][0], h["Content-Type"][0], p.Violated[0] = "public", "text/html", "b"
	}
}
