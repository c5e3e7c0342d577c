package keyfunc

import (
	"net/http"
	"strings"
	"testing"
)

const alphanumerics = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func TestTokenChar(t *testing.T) {
	for c := range 256 {
		want := strings.Contains("!#$%&'*+-.^_`|~"+alphanumerics, string([]byte{byte(c)}))
		if tokenChar(byte(c)) != want {
			t.Errorf("%#x: got %v", c, !want)
		}
	}
}

// The result must be the key that net/http stores the header under.
func TestAppendCanonical(t *testing.T) {
	names := []string{"CF-Connecting-IP", "x--y", "-", "x_y-Z.a", "X-FORWARDED-FOR"}
	for _, c := range alphanumerics {
		names = append(names, "-"+string(c)+string(c))
	}
	for _, name := range names {
		if got, want := string(appendCanonical(nil, name)), http.CanonicalHeaderKey(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
