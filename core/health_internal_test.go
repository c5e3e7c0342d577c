package core

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func TestHealthIsOpenOnlyWhileCallsAreWithheld(t *testing.T) {
	b := newBreakerAt(t)
	begun := b.now
	b.trips()
	want := func(open bool, since time.Time, why string) {
		t.Helper()
		if h := b.health(b.now); h.Open != open || !h.Since.Equal(since) {
			t.Fatalf("%s: got %+v, want open %v since %v", why, h, open, since)
		}
	}
	b.now = b.resume.Add(-1)
	want(true, begun, "at the end of the pause")
	b.now = b.resume.Add(time.Hour)
	want(false, b.resume, "after the pause, without traffic")
	if err := b.enter(b.now); err != nil {
		t.Fatal(err)
	}
	want(true, begun, "while one call probes the store, others are withheld")
	b.record(t.Context(), b.now, errDown)
	want(true, begun, "the probe has failed: the outage goes on")
	b.now = b.resume
	back := b.now
	b.call(nil)
	want(false, back, "after the first success")
	b.enter(b.now)
	want(false, back, "one call in flight, a second is let through")
	b.enter(b.now)
	want(true, back, "a third would be withheld")
	b.record(t.Context(), b.now, nil)
	want(false, back, "three may be in flight")
	b.now = b.now.Add(time.Second)
	b.record(t.Context(), b.now, errDown)
	want(true, b.now, "another outage")
}

func TestMemoryStoreHasNoBreaker(t *testing.T) {
	l := Must(New([]Rule{PerMinute(1).By(func(*http.Request) (string, error) { return "k", nil })}))
	if _, err := l.Take(context.Background(), Claim{Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if h := l.StoreHealth(); h != (Health{Keys: 1}) {
		t.Errorf("got %+v, want one key and nothing else", h)
	}
}
