package dashboard_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/telemetry"
)

// A slowReader is a connection whose client stops reading after some writes. From then on, a write blocks until its
// deadline.
type slowReader struct {
	httptest.ResponseRecorder
	reads    int
	deadline time.Time
	ends     []time.Time // the deadlines so far
}

func (w *slowReader) SetWriteDeadline(t time.Time) error {
	w.deadline, w.ends = t, append(w.ends, t)
	return nil
}

func (w *slowReader) Write(b []byte) (int, error) {
	if w.reads--; w.reads < 0 {
		time.Sleep(time.Until(w.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

func (w *slowReader) FlushError() error {
	if w.reads < 0 {
		return errors.New("the connection is broken")
	}
	return nil
}

// A client that stops reading keeps its stream for 10 seconds at most. The deadline moves with each event.
func TestSlowReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
		begun := time.Now()
		w := &slowReader{reads: 3}
		page.ServeHTTP(w, httptest.NewRequest("GET", "/events", nil))
		if took := time.Since(begun); took != 13*time.Second {
			t.Errorf("the stream ended after %v, want three seconds and the deadline of ten", took)
		}
		for i, end := range w.ends {
			if got := end.Sub(begun); got != time.Duration(10+i)*time.Second {
				t.Errorf("event %d has the deadline %v", i, got)
			}
		}
	})
}

// Any bytes are a valid key. They can be looked up, reset and banned, and they neither reach a header nor break the
// response.
func TestOddKeys(t *testing.T) {
	s := newScene(t, false, dashboard.WithReset(func(*http.Request) bool { return true }))
	for _, key := range []string{"\x00", "\xff\xfe", "a\r\nSet-Cookie: b", " ", "💧", "</script>", "{}", strings.Repeat("k", 60_000)} {
		for _, action := range []string{"lookup", "reset", "ban"} {
			status, answer := s.post(t, action, url.Values{"rule": {"api"}, "key": {key}, "duration": {"1m"}})
			if status != 200 || answer["error"] != nil || len(answer["limits"].([]any)) != 1 {
				t.Errorf("%s of %.20q: got %d, %v", action, key, status, answer["error"])
			}
		}
	}
	if status, _ := s.post(t, "lookup", url.Values{"rule": {"api"}, "key": {strings.Repeat("k", 70_000)}}); status != 400 {
		t.Errorf("a form of 70 KB: got %d", status)
	}
	for _, duration := range []string{"99999999h", "1", "1e9s", "NaN"} {
		if _, answer := s.post(t, "ban", url.Values{"rule": {"api"}, "key": {"k"}, "duration": {duration}}); answer["error"] == nil {
			t.Errorf("a ban for %s: got %v", duration, answer)
		}
	}
}
