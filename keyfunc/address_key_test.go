package keyfunc_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/keyfunc"
)

func TestAddress(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for found, want := range map[string]string{
		"203.0.113.9":                  "ip:203.0.113.9",
		"203.0.113.9:4000":             "ip:203.0.113.9",
		"::ffff:203.0.113.9":           "ip:203.0.113.9",
		"2001:db8:1:2:3:4:5:6":         "ip:2001:db8:1:2::/64",
		"[2001:DB8:1:2:3:4:5:6]:4000":  "ip:2001:db8:1:2::/64",
		"64:ff9b::203.0.113.9":         "ip:203.0.113.9",
		"fe80::1%eth0":                 "ip:fe80::1%eth0",
		"":                             "no key",
		"unknown":                      "invalid",
		"203.0.113.9, 198.51.100.7":    "invalid",
		"203.0.113.256":                "invalid",
		strings.Repeat("9", 1_000_000): "invalid",
	} {
		key, err := keyfunc.Address(func(got *http.Request) string {
			expect.Equal(t, got, r, "another request")
			return found
		})(r)
		switch {
		case want == "no key" && errors.Is(err, core.ErrNoKey), want == "invalid" && errors.Is(err, core.ErrInvalid):
			expect.True(t, key == "" && len(err.Error()) <= 200, "%.50q: %q, %v", found, key, err)
		case key != want || err != nil:
			t.Errorf("%.50q: got %q, %v, want %s", found, key, err, want)
		}
	}
	err := expect.PanicOf(func() { keyfunc.Address(nil) })
	expect.True(t, errors.Is(err, core.ErrInvalid) && strings.Contains(err.Error(), "Address needs a func"), "Address(nil) panicked with %v", err)
}
