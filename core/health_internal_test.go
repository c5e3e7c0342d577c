package core

import (
	"context"
	"net/http"
	"testing"
)

func TestMemoryStoreHasNoBreaker(t *testing.T) {
	l := Must(New([]Rule{PerMinute(1).By(func(*http.Request) (string, error) { return "k", nil })}))
	if _, err := l.Take(context.Background(), Claim{Key: "k"}); err != nil {
		t.Fatal(err)
	}
	if h := l.StoreHealth(); h != (Health{Keys: 1}) {
		t.Errorf("got %+v, want one key and nothing else", h)
	}
}
