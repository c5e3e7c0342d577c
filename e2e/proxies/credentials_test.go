package proxies

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/keyfunc"
)

const secret = "s3cret"

// serves are the ways in which applications commonly read a credential. Each returns whether it would serve r.
var serves = map[string]func(r *http.Request) bool{
	"Header.Get": func(r *http.Request) bool { return r.Header.Get("X-Api-Key") == secret },
	"trimmed":    func(r *http.Request) bool { return strings.TrimSpace(r.Header.Get("X-Api-Key")) == secret },
	"last value": func(r *http.Request) bool {
		all := r.Header.Values("X-Api-Key")
		return len(all) > 0 && all[len(all)-1] == secret
	},
	"Cookie": func(r *http.Request) bool { c, err := r.Cookie("sid"); return err == nil && c.Value == secret },
	"last cookie": func(r *http.Request) bool {
		all := r.CookiesNamed("sid")
		return len(all) > 0 && all[len(all)-1].Value == secret
	},
	"BasicAuth": func(r *http.Request) bool { name, _, _ := r.BasicAuth(); return name == "ann" },
	"CutPrefix": func(r *http.Request) bool { _, token := cutBearer(r, "Bearer "); return token == secret },
	"TrimPrefix": func(r *http.Request) bool {
		return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") == secret
	},
	"Split": func(r *http.Request) bool {
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), "Bearer ")
		return token == secret
	},
	"Fields": func(r *http.Request) bool {
		f := strings.Fields(r.Header.Get("Authorization"))
		return len(f) > 1 && f[len(f)-1] == secret
	},
	"any byte":     func(r *http.Request) bool { ok, token := cutBearer(r, "BearerX"); return ok && token == secret },
	"any encoding": func(r *http.Request) bool { return strings.HasSuffix(r.Header.Get("Authorization"), "YW5uOg==") },
}

// cutBearer cuts len(prefix) bytes off the Authorization header, if they begin with the scheme in any letter case.
func cutBearer(r *http.Request, prefix string) (bool, string) {
	value := r.Header.Get("Authorization")
	if len(value) < len(prefix) || !strings.EqualFold(value[:len("Bearer")], "Bearer") {
		return false, ""
	}
	return true, value[len(prefix):]
}

// evasions are ways to send a credential that some applications accept.
var evasions = [][]string{
	{"X-Api-Key: s3cret"}, {"X-Api-Key: s3cret", "X-Api-Key: b"}, {"X-Api-Key: b", "X-Api-Key: s3cret"}, {"X-Api-Key: s3cret", "X-Api-Key: s3cret"},
	{"X-Api-Key: s3cret", "X-Api-Key: "}, {"X-Api-Key: ", "X-Api-Key: s3cret"}, {"x-api-key: s3cret"}, {"X-Api-Key: \u00a0s3cret"}, {"X-Api-Key: s3cret\u2003"},
	{"Cookie: sid=s3cret"}, {"Cookie: sid=s3cret; sid=b"}, {"Cookie: sid=b; sid=s3cret"}, {"Cookie: sid=s3cret", "Cookie: sid=b"},
	{`Cookie: sid="s3cret"`}, {`Cookie: sid=x"x; sid=s3cret`}, {`Cookie: sid=s3cret; sid=x"x`}, {"Cookie: sid = s3cret"}, {"Cookie: sid=; sid=s3cret"},
	{"Authorization: Bearer s3cret"}, {"Authorization: bearer s3cret"}, {"Authorization: Bearer  s3cret"}, {"Authorization: Bearer\ts3cret"},
	{"Authorization: s3cret"}, {"Authorization: xBearer s3cret"}, {"Authorization: Token Bearer s3cret"}, {"Authorization: BearerXs3cret"},
	{"Authorization: Bearer\u00a0s3cret"}, {"Authorization: Bearer s3cret", "Authorization: Bearer b"}, {"Authorization: Bearer s3cret", "Authorization: "},
	{"Authorization: Basic YW5uOg=="}, {"Authorization: BASIC YW5uOg=="}, {"Authorization: Basic\tYW5uOg=="}, {"Authorization: Basic  YW5uOg=="},
	{"Authorization: Basic YW5uOg==", "Authorization: Basic Ym9iOg=="}, {"Authorization: Basic YW5uOg==", "Authorization: Bearer b"},
}

// TestCredentialCannotBeHidden sends a credential in all these ways, from many addresses. However the application reads
// it, its owner is served only as often as the credential's limit admits, although First falls back to the address.
func TestCredentialCannotBeHidden(t *testing.T) {
	key := keyfunc.First(keyfunc.APIKey("X-Api-Key"), keyfunc.Bearer, keyfunc.BasicUser, keyfunc.Cookie("sid"), keyfunc.RemoteIP)
	for _, f := range apps.Frameworks {
		for name, served := range serves {
			t.Run(f.Name+"/"+name, func(t *testing.T) {
				var n atomic.Int32
				limiter := core.Must(core.New([]core.Rule{core.PerHour(2).Using(core.SlidingLog).By(key)}))
				s := wire.Serve(t, f.Build(apps.Limited(limiter, func(_ http.ResponseWriter, r *http.Request) {
					if served(r) {
						n.Add(1)
					}
				})), false)
				for _, fields := range evasions {
					for range 3 {
						s.Get("/", fields...)
					}
				}
				expect.Equal(t, n.Load(), 2, "how often served")
			})
		}
	}
}
