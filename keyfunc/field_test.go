package keyfunc

import (
	"net/http"
	"strings"
	"testing"
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func TestTokenLetter(t *testing.T) {
	for c := range 256 {
		want := strings.Contains("!#$%&'*+-.^_`|~"+letters, string([]byte{byte(c)}))
		if tokenLetter(byte(c)) != want {
			t.Errorf("%#x: got %v", c, !want)
		}
	}
}

// TestAppendCanonical compares with net/http, which must find what we ask for.
func TestAppendCanonical(t *testing.T) {
	names := []string{"CF-Connecting-IP", "x--y", "-", "x_y-Z.a", "X-FORWARDED-FOR"}
	for _, c := range letters {
		names = append(names, "-"+string(c)+string(c))
	}
	for _, name := range names {
		if got, want := string(appendCanonical(nil, name)), http.CanonicalHeaderKey(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
