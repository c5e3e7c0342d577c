package ginlimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

func TestClientIP(t *testing.T) {
	trust := func(networks ...string) func(*gin.Engine) {
		return func(e *gin.Engine) {
			if err := e.SetTrustedProxies(networks); err != nil {
				t.Fatal(err)
			}
		}
	}
	cloudflare := func(networks ...string) func(*gin.Engine) {
		return func(e *gin.Engine) {
			trust(networks...)(e)
			e.TrustedPlatform = gin.PlatformCloudflare
		}
	}
	other := func(e *gin.Engine) { e.RemoteIPHeaders = []string{"X-Client"} }
	for _, row := range []struct {
		name   string
		engine func(*gin.Engine)
		peer   string
		header string
		want   string // a key, or what the error says
	}{
		{"a trusted proxy", trust("10.0.0.0/8"), "10.0.0.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"an IPv6 client is its /64", trust("10.0.0.0/8"), "10.0.0.1:80", "X-Forwarded-For: 2001:db8:1:2:3::4", "ip:2001:db8:1:2::/64"},
		{"an untrusted peer", trust("10.0.0.0/8"), "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"no proxy", trust(), "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"a trusted network for documentation", trust("192.0.2.0/24"), "192.0.2.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"by default", func(*gin.Engine) {}, "203.0.113.9:80", "", "SetTrustedProxies"},
		{"all of IPv4", trust("0.0.0.0/0"), "203.0.113.9:80", "", "SetTrustedProxies"},
		{"all of IPv6", trust("10.0.0.0/8", "::/0"), "203.0.113.9:80", "", "SetTrustedProxies"},
		{"another header, of everybody", other, "203.0.113.9:80", "X-Client: 198.51.100.7", "SetTrustedProxies"},
		{"a platform", cloudflare(), "203.0.113.9:80", "Cf-Connecting-Ip: 198.51.100.7", "ip:198.51.100.7"},
		{"a platform, and everybody", cloudflare("0.0.0.0/0"), "203.0.113.9:80", "Cf-Connecting-Ip: 198.51.100.7", "SetTrustedProxies"},
		{"a platform that sends no address", cloudflare(), "203.0.113.9:80", "Cf-Connecting-Ip: x", `got "x"`},
		{"a Unix socket", trust(), "@", "", "no key"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := gin.New()
			row.engine(e)
			var key string
			var err error
			e.Use(ginlimit.New(core.Must(core.New([]core.Rule{core.PerHour(9).By(func(r *http.Request) (string, error) {
				before := *r
				if key, err = ginlimit.ClientIP(r); r.RemoteAddr != before.RemoteAddr || len(r.Header) != len(before.Header) {
					t.Errorf("the request is now %+v", r)
				}
				return "k", nil
			})}))))
			e.GET("/", func(c *gin.Context) {
				if c.Request.RemoteAddr != row.peer {
					t.Errorf("the handler gets the peer %s", c.Request.RemoteAddr)
				}
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
	if key, err := ginlimit.ClientIP(httptest.NewRequest(http.MethodGet, "/", nil)); key != "" || !errors.Is(err, core.ErrInvalid) {
		t.Errorf("without the middleware: %q, %v", key, err)
	}
}
