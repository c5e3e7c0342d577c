package echolimit_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

func TestRealIP(t *testing.T) {
	_, all4, _ := net.ParseCIDR("0.0.0.0/0")
	_, all6, _ := net.ParseCIDR("::/0")
	_, docs, _ := net.ParseCIDR("192.0.2.0/24")
	header := func(r *http.Request) string { return r.Header.Get("X-Client") }
	xRealIP := "ip:198.51.100.7"
	stranger := httptest.NewRequest(http.MethodGet, "/", nil)
	stranger.Header.Set("X-Real-Ip", "10.0.0.2")
	if echo.ExtractIPFromRealIPHeader()(stranger) == "10.0.0.2" { // old versions of echo trust by the header, not by the peer
		xRealIP = "IPExtractor"
	}
	byDefault := "IPExtractor"
	if echo.New().NewContext(stranger, nil).RealIP() != "10.0.0.2" { // new versions trust nobody
		byDefault = "ip:203.0.113.9"
	}
	for _, row := range []struct {
		name    string
		extract echo.IPExtractor
		peer    string
		header  string
		want    string // a key, or what the error says
	}{
		{"a trusted proxy", echo.ExtractIPFromXFFHeader(), "10.0.0.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"an IPv6 client is its /64", echo.ExtractIPFromXFFHeader(), "10.0.0.1:80", "X-Forwarded-For: 2001:db8:1:2:3::4", "ip:2001:db8:1:2::/64"},
		{"an untrusted peer", echo.ExtractIPFromXFFHeader(), "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"X-Real-IP", echo.ExtractIPFromRealIPHeader(), "10.0.0.1:80", "X-Real-Ip: 198.51.100.7", xRealIP},
		{"no proxy", echo.ExtractIPDirect(), "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"a trusted network for documentation", echo.ExtractIPFromXFFHeader(echo.TrustIPRange(docs)), "192.0.2.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"by default", nil, "203.0.113.9:80", "", byDefault},
		{"all of IPv4", echo.ExtractIPFromXFFHeader(echo.TrustIPRange(all4)), "203.0.113.9:80", "", "IPExtractor"},
		{"all of IPv6", echo.ExtractIPFromXFFHeader(echo.TrustIPRange(all6)), "203.0.113.9:80", "", "IPExtractor"},
		{"another header, of everybody", header, "203.0.113.9:80", "X-Client: 198.51.100.7", "IPExtractor"},
		{"another header that is absent", header, "203.0.113.9:80", "", "no key"},
		{"a Unix socket", echo.ExtractIPDirect(), "@", "", "no key"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := echo.New()
			e.IPExtractor = row.extract
			var key string
			var err error
			e.Use(echolimit.New(core.Must(core.New([]core.Rule{core.PerHour(9).By(func(r *http.Request) (string, error) {
				key, err = echolimit.RealIP(r)
				return "k", nil
			})}))))
			e.GET("/", func(c *echo.Context) error {
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
			if err != nil && key != "" || err == nil && key == "" {
				t.Errorf("got %q, %v", key, err)
			}
		})
	}
	if key, err := echolimit.RealIP(httptest.NewRequest(http.MethodGet, "/", nil)); key != "" || !errors.Is(err, core.ErrInvalid) {
		t.Errorf("without the middleware: %q, %v", key, err)
	}
}
