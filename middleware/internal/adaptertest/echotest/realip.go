package echotest

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
)

func (v Version[E, C, H, M, R]) testRealIP(t *testing.T) {
	_, all4, _ := net.ParseCIDR("0.0.0.0/0")
	_, all6, _ := net.ParseCIDR("::/0")
	_, docs, _ := net.ParseCIDR("192.0.2.0/24")
	header := func(r *http.Request) string { return r.Header.Get("X-Client") }
	xRealIP := "ip:198.51.100.7"
	stranger := httptest.NewRequest(http.MethodGet, "/", nil)
	stranger.Header.Set("X-Real-Ip", "10.0.0.2")
	if v.FromRealIP(stranger) == "10.0.0.2" { // old versions of echo check whether they trust the address in the header, not the peer
		xRealIP = "IPExtractor"
	}
	byDefault := "IPExtractor"
	if v.New().NewContext(stranger, nil).RealIP() != "10.0.0.2" { // new versions trust nobody
		byDefault = "ip:203.0.113.9"
	}
	for _, row := range []struct {
		name    string
		extract func(*http.Request) string
		peer    string
		header  string
		want    string // a key, or a part of the error
	}{
		{"a trusted proxy", v.FromXFF(), "10.0.0.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"the /64 of an IPv6 client", v.FromXFF(), "10.0.0.1:80", "X-Forwarded-For: 2001:db8:1:2:3::4", "ip:2001:db8:1:2::/64"},
		{"an untrusted peer", v.FromXFF(), "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"X-Real-IP", v.FromRealIP, "10.0.0.1:80", "X-Real-Ip: 198.51.100.7", xRealIP},
		{"no proxy", v.FromPeer, "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"a trusted network for documentation", v.FromXFF(docs), "192.0.2.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"no IPExtractor", nil, "203.0.113.9:80", "", byDefault},
		{"trust in all of IPv4", v.FromXFF(all4), "203.0.113.9:80", "", "IPExtractor"},
		{"trust in all of IPv6", v.FromXFF(all6), "203.0.113.9:80", "", "IPExtractor"},
		{"another header of any peer", header, "203.0.113.9:80", "X-Client: 198.51.100.7", "IPExtractor"},
		{"another header, which is missing", header, "203.0.113.9:80", "", "no key"},
		{"a Unix socket", v.FromPeer, "@", "", "no key"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := v.New()
			v.SetExtractor(e, row.extract)
			var key string
			var err error
			e.Use(v.limit(core.PerHour(9).By(func(r *http.Request) (string, error) {
				c, _ := v.ContextOf(r)
				before := c.Request()
				if key, err = v.RealIP(r); c.Request() != before {
					t.Error("RealIP leaves another request in the context")
				}
				return "k", nil
			})))
			e.Add(http.MethodGet, "/", func(c C) error {
				if c.Request().RemoteAddr != row.peer {
					t.Errorf("the handler gets the peer %s", c.Request().RemoteAddr)
				}
				return nil
			})
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = row.peer
			if name, value, ok := strings.Cut(row.header, ": "); ok {
				r.Header.Set(name, value)
			}
			e.ServeHTTP(httptest.NewRecorder(), r)
			if key != row.want && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %q, %v, want %s", key, err, row.want)
			}
			if (err == nil) != (key != "") {
				t.Errorf("got %q, %v", key, err)
			}
		})
	}
	if key, err := v.RealIP(httptest.NewRequest(http.MethodGet, "/", nil)); key != "" || !errors.Is(err, core.ErrInvalid) {
		t.Errorf("without the middleware: %q, %v", key, err)
	}
}
