package core

import (
	"context"
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
)

func TestMemoryStoreHasNoBreaker(t *testing.T) {
	l := Must(New([]Rule{PerMinute(1).By(func(*http.Request) (string, error) { return "k", nil })}))
	must.Get(l.Take(context.Background(), Claim{Key: "k"}))(t)
	if h := l.StoreHealth(); h != (Health{Keys: 1}) {
		t.Errorf("got %+v, want one key and nothing else", h)
	}
}
