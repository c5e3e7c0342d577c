package route_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/middleware/internal/route"
)

func TestFind(t *testing.T) {
	for _, row := range []struct {
		path   string
		routes string // the router finds a path by its name, or by "*"
		want   string // empty: no route; "error"
	}{
		{"/login", "/login", "/login"},
		{"/login", "/login /login/", "/login"},
		{"/login", "/login *", "/login"},
		{"/", "/ *", "/"},
		{"/nowhere", "/login", ""},
		{"/nowhere", "/login *", "*"},
		{"/login/", "/login", "/login"},
		{"/login/", "/login *", "/login"},
		{"/login/", "/login/", "/login/"},
		{"/login/", "*", "*"},
		{"/login", "/login/", "/login/"},
		{"/login//", "/login", "/login"},
		{"//login", "/login", "/login"},
		{"//login", "/login *", "error"},
		{"//", "/", "/"},
		{"/x/../login", "/login", "/login"},
		{"/x/../login", "/login /x", "/login"},
		{"/x/../login", "/login *", "error"},
		{"/x/../login", "*", "*"},
		{"/x//y", "/login *", "*"},
		{"/log%69n", "/login", "/login"},
		{"/log%69n", "/log%69n", "/log%69n"},
		{"/log%69n", "/login *", "error"},
		{"/log%69n/", "/login", "/login"},
		{"/o%27neil", "*", "*"},
		{"/a%2Fb", "/a/b *", "*"},
		{"/a%2fb", "/a/b *", "*"},
		{"/a%2Fb", "/a/b", "/a/b"},
		{"/a%2F..%2Flogin", "/login *", "error"},
	} {
		u := must.Get(url.Parse("http://localhost" + row.path))(t)
		routes := strings.Fields(row.routes)
		got, err := route.Find(u, func(u *url.URL) string {
			p := u.Path
			if u.RawPath != "" {
				p = u.RawPath
			}
			switch {
			case slices.Contains(routes, p):
				return p
			case slices.Contains(routes, "*"):
				return "*"
			}
			return ""
		})
		if err != nil {
			got = "error"
		}
		expect.Equal(t, got, row.want, "%s in %s, %v", row.path, row.routes, err)
	}
}
