package keyfunc

import (
	"strings"
	"testing"
)

// Each row is one Cookie line, or several separated by a newline.
func TestCookie(t *testing.T) {
	value := "cookie:sid:" + sha("x1")
	for _, row := range []struct{ why, lines, want string }{
		{"one of several", "a=b; sid=x1; c=d", value},
		{"quotes, which net/http strips", `sid="x1"`, value},
		{"spaces around the name", "a=b;  sid =x1", value},
		{"the name as a value", "a=sid; sid=x1", value},
		{"names have case", "SID=x1", "error"},
		{"a longer name", "xsid=x1; sidx=x1", "error"},
		{"none", "a=b", "error"},
		{"an empty line", "", "error"},
		{"an empty value", "sid=", "error"},
		{"an empty value in quotes", `sid=""`, "error"},
		{"no value", "sid", "error"},

		{"two values", "sid=a; sid=b", "bad"},
		{"two values in two lines", "sid=a\nsid=b", "bad"},
		{"one value twice", "sid=a; sid=a", "bad"},
		{"an empty value first", "sid=; sid=a", "bad"},
		{"an empty value last", "sid=a; sid", "bad"},
		{"the same value in quotes", `sid=a; sid="a"`, "bad"},
		{"a malformed value first, which net/http skips", `sid=a"b; sid=x1`, "bad"},
		{"a malformed value last", "sid=x1; sid=a\\b", "bad"},
		{"a malformed value alone", `sid=a"b`, "bad"},
		{"more cookies than net/http reads", strings.Repeat("a=b; ", 3000) + "sid=x1", "bad"},
	} {
		t.Run(row.why, func(t *testing.T) {
			r := request("203.0.113.9:1")
			r.Header["Cookie"] = strings.Split(row.lines, "\n")
			checkKey(t, Cookie("sid"), r, row.want)
			if row.want == "error" {
				row.want = "ip:203.0.113.9"
			}
			checkKey(t, First(Cookie("sid"), RemoteIP), r, row.want)
		})
	}
	checkKey(t, Cookie("sid"), request(""), "error")
}

// FuzzCookie checks that each cookie that net/http finds is keyed by its value or rejected, and never counts as
// missing.
func FuzzCookie(f *testing.F) {
	for _, s := range []string{"sid=a", "sid=a; sid=b", `sid="a"`, "sid =a", "\vsid=a", "a;sid;sid=", ";;=;sid=\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r := request("", "Cookie", line)
		served := r.CookiesNamed("sid")
		switch key, err := Cookie("sid")(r); {
		case err == nil && (len(served) != 1 || key != "cookie:sid:"+sha(served[0].Value)):
			t.Fatalf("line %q: got %q, net/http has %v", line, key, served)
		case len(served) > 1 || len(served) == 1 && served[0].Value != "":
			if err != nil && absent(err) {
				t.Fatalf("line %q: got %v, net/http has %v", line, err, served)
			}
		}
	})
}
