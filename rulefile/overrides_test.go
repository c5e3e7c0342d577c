package rulefile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

const overridden = `
funcs: [user]
rules:
  - name: plan
    key: first(apikey(X-Api-Key), ip)
    limits: 100/m
    overrides:
      "key:0123456789abcdef0123456789abcdef": 100000/month
      "ip:203.0.113.9": 7/m
      "203.0.113.0/24": 0/s
      "203.0.0.0/16": [5/s, 50/m]
      "2001:db8::/32": 9/m
`

func TestOverridesOfKeysAndNetworks(t *testing.T) {
	file := must.Get(Parse([]byte(strings.ReplaceAll(overridden, "funcs: [user]", "")), Funcs{}))(t)
	for _, tt := range []struct{ key, want string }{
		{"key:0123456789abcdef0123456789abcdef", "100000/month"},
		{"key:other", ""},
		{"ip:203.0.113.9", "7/1m"}, // exact, before its network
		{"ip:203.0.113.10", "0/1s"},
		{"ip:203.0.7.1", "5/1s, 50/1m"}, // the longest prefix
		{"ip:203.1.0.0", ""},
		{"ip:2001:db8:1:2::/64", "9/1m"},
		{"ip:2001:db9::/64", ""},
		{"ip:unix", ""},
		{"user:203.0.113.10", ""},
	} {
		expect.Equal(t, limitsText(file.Rules[0].Override(tt.key)), tt.want, "%s", tt.key)
	}
}

func TestMistakesInOverrides(t *testing.T) {
	for _, tt := range []struct{ key, entries, want string }{
		{"ip", `"203.0.113.9": 1/s`, `8: overrides: 203.0.113.9 is not a key; want "ip:203.0.113.9"`},
		{"ip", `"2001:db8::9": 1/s`, `8: overrides: 2001:db8::9 is not a key; want "ip:2001:db8::/64"`},
		{"ip", `"::ffff:203.0.113.9": 1/s`, `8: overrides: ::ffff:203.0.113.9 is not a key; want "ip:203.0.113.9"`},
		{"ip", `"user:42": 1/s`, `8: overrides: no key of this rule is "user:42"; its keys begin with ip:`},
		{"ip", `"203.0.113.1/24": 1/s`, "8: 203.0.113.1/24 has host bits set; want 203.0.113.0/24"},
		{"ip", `"2001:db8::1/96": 1/s`, "8: 2001:db8::1/96 has host bits set; want 2001:db8::/64"},
		{"ip", `"::ffff:10.0.0.1/104": 1/s`, "8: ::ffff:10.0.0.1/104 has host bits set; want 10.0.0.0/8"},
		{"ip", `"2001:db8::/65": 1/s`, "8: 2001:db8::/65 is longer than /64, the prefix that counts as one client"},
		{"ip", `"::ffff:10.0.0.0/104": 1/s`, "8: ::ffff:10.0.0.0/104 is an IPv4 network in IPv6 form"},
		{"ip", `"ip:2001:db8::1": 1/s`, `8: "ip:2001:db8::1" is not a key; want "ip:2001:db8::/64"`},
		{"ip", `"ip:::ffff:10.0.0.1": 1/s`, `8: "ip:::ffff:10.0.0.1" is not a key; want "ip:10.0.0.1"`},
		{"ip", `"ip:2001:DB8:1::/64": 1/s`, `8: "ip:2001:DB8:1::/64" is not a key; want "ip:2001:db8:1::/64"`},
		{"ip", `"ip:FE80::1": 1/s`, `8: "ip:FE80::1" is not a key; want "ip:fe80::1"`},
		{"ip", `"ip:unresolved:2001:db8::1": 1/s`, `8: "ip:unresolved:2001:db8::1" is not a key; want "ip:unresolved:2001:db8::/64"`},
		{"ip", `"ip:203.0.113.09": 1/s`, `8: "ip:203.0.113.09" is not a key; want an address behind ip:, or ip:unix`},
		{"first(bearer, ip)", `"ip:ann": 1/s`, `8: "ip:ann" is not a key; want an address behind ip:, or ip:unix`},
		{"ip", `"ip:10.0.0.0/8": 1/s`, `8: "ip:10.0.0.0/8" is not a key; for a network, want 10.0.0.0/8 without ip:`},
		{"ip", `"ip:2001:db8::1/128": 1/s`, `8: "ip:2001:db8::1/128" is not a key; for a network, want 2001:db8::/64 without ip:`},
		{"ip", `"ip:2002:cb00:7109::1": 1/s`, `8: "ip:2002:cb00:7109::1" is not a key; want "ip:203.0.113.9"`}, // 6to4
		{"ip", `"2002:cb00:7100::/40": 1/s`, "8: 2002:cb00:7100::/40 matches no client: the key of a 6to4 address is its IPv4 address; want 203.0.113.0/24"},
		{"apikey(X-Api-Key)", `"10.0.0.0/8": 1/s`, "8: 10.0.0.0/8 is a network, and the key of this rule is not ip"},
		{"join(ip, method)", `"10.0.0.0/8": 1/s`, "8: 10.0.0.0/8 is a network, and the key of this rule is not ip"},
		{"user", `"10.0.0.0/8": 1/s`, "8: 10.0.0.0/8 is a network, and the key of this rule is not ip"},
		{"header(X-Tenant)", `"header:X-Tenant:acme": 1/s`, `8: overrides: no key of this rule is "header:X-Tenant:acme"; its keys begin with header:x-tenant:`},
		{"first(bearer, ip)", `"key:1": 1/s`, `its keys begin with ip: or bearer:`},
		{"user", "\"user:1\": 1/s\n      \"user:1\": 2/s", "9: user:1 is here twice, first in line 8"},
		{"ip", "\"10.0.0.0/8\": 1/s\n      \"10.0.0.0/8\": 2/s", "9: 10.0.0.0/8 is here twice, first in line 8"},
		{"user", `"user:1": 1/fortnight`, `8: limit "1/fortnight": period "fortnight"`},
		{"user", `"user:1": {a: b}`, "want a text or a list of texts"},
		{"user", `- user`, "overrides: want a table of keys and their limits, got a list"},
		{"user", `{}`, "overrides: want a table of keys and their limits, got an empty one"},
	} {
		src := "funcs: [user]\n\n\nrules:\n  - key: " + tt.key + "\n    limits: 1/s\n    overrides:\n      " + tt.entries + "\n"
		_, err := Check("f", []byte(src))
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "f:8:7: ", "8: "), tt.want) && !strings.Contains(strings.ReplaceAll(err.Error(), "f:9:7: ", "9: "), tt.want) &&
			!strings.Contains(err.Error(), strings.TrimPrefix(tt.want, "8: ")) {
			t.Errorf("key %s, %s: got %v, want %q", tt.key, tt.entries, err, tt.want)
		}
	}
	for _, good := range [][2]string{{"user", `"acme": 1/s`}, {"first(user, ip)", `"10.0.0.0/8": 1/s`}, {"ip", `"ip:unix": 1/s`}, {"ip", `"ip:unresolved:10.0.0.1": 1/s`}, {"ip", `"ip:unresolved:unix": 1/s`}, {"first(user, ip)", `"ip:ann": 1/s`}, {"ip", `"ip:fe80::1": 1/s`}, {"ip", `"2002:a00::/40": 1/s`}, {"ip", `"2002:c000::/24": 1/s`}, {"const(all)", `"const:all": 1/s`}, {"join(ip, method)", `"join:ip:10.0.0.1|method:GET": 1/s`}} {
		src := "funcs: [user]\nrules:\n  - key: " + good[0] + "\n    limits: 1/s\n    overrides:\n      " + good[1] + "\n"
		expect.NoError(t, expect.ErrorOf(Check("f", []byte(src))), "key %s, %s", good[0], good[1])
	}
}

// manyOverrides returns a file with n overrides. The last one is in line n + 6.
func manyOverrides(n int) string {
	var b strings.Builder
	b.WriteString("funcs: [user]\nrules:\n  - name: plan\n    key: first(user, ip)\n    limits: 100/m\n    overrides: # of partners\n")
	for i := range n {
		if i%2 == 0 {
			fmt.Fprintf(&b, "      \"user:%d\": %d/month;tz=Europe/Berlin\n", i, 1000+i%7)
		} else {
			fmt.Fprintf(&b, "      \"%d.%d.%d.0/24\": %d/s # a network\n", 10+i>>16, i>>8&255, i&255, i%5)
		}
	}
	b.WriteString("    dry_run: true\n")
	return b.String()
}

func TestAHundredThousandOverridesAreReadInLinearTime(t *testing.T) {
	testpass.Sequential(t)
	src := manyOverrides(100_000)
	begun := time.Now()
	file, err := Check("f", []byte(src))
	took := time.Since(begun)
	must.True(t, err == nil && took <= 20*time.Second, "got %v after %v", err, took)
	d := file.details[0].overrides
	expect.True(t, d.count == 100_000 && file.Rules[0].DryRun, "got %d overrides, dry run %v", d.count, file.Rules[0].DryRun)
	expect.Equal(t, limitsText(file.Rules[0].Override("user:99998")), "1003/month;tz=Europe/Berlin", "limits of user:99998")
}

func TestMistakesInLongOverridesHaveTheirLines(t *testing.T) {
	src := manyOverrides(1000) + "  - key: nothing\n    limits: 1/s\n"
	src = strings.Replace(src, "\"user:500\": ", "\"user:500\": x", 1)
	src = strings.Replace(src, "key: nothing", "key: >-\n      nothing # text\n    match: POST", 1)
	for _, end := range []string{"\n", "\r\n", "\r", " \t \n"} {
		_, err := Check("f", []byte(strings.ReplaceAll(src, "\n", end)))
		for _, want := range []string{"f:507:19: limit \"x1003/month", "f:1008:10: unknown key \"nothing # text\"", "f:1010:12: unknown match \"POST\""} {
			expect.True(t, err != nil && strings.Contains(err.Error(), want), "lines end in %q: got %v, want %q", end, err, want)
		}
	}
}

// Overrides that are cut out of the file must equal what the YAML parser reads.
func TestCutOverridesEqualParsedOverrides(t *testing.T) {
	entries := []string{
		`"user:%d": 5/s`, `"user:%d":   5/s, 6/m   # text`, `user:x%d: 5/s;burst=3`, `a%d: 7/month;tz=Europe/Berlin;from=3`, `"ü:%d": 1/s`, `"a#b%d": 1/s`,
		`"10.%[1]d.0.0/16": 20 at once`, `c.d/e-%d: 5/15 m`,
	}
	var text strings.Builder
	text.WriteString("rules:\n  - overrides:\n")
	for i := range 250 {
		fmt.Fprintf(&text, "      "+entries[i%len(entries)]+"\n", i)
	}
	rest, cut := cutOverrides(text.String())
	must.True(t, len(cut[2]) == 250 && strings.Count(rest, "\n") == strings.Count(text.String(), "\n"),
		"got %d entries, %d lines of rest", len(cut[2]), strings.Count(rest, "\n"))
	m := newMistakes("f", text.String())
	root := parseTree(text.String(), m)
	must.Do(t, m.err())
	want := root.table[0].value.list[0].table[0].value.table
	for i := range want {
		a, b := cut[2][i], want[i]
		expect.True(t, a.key.text == b.key.text && a.key.spot == b.key.spot && a.value.text == b.value.text &&
			a.value.spot == b.value.spot && a.key.verbatim == b.key.verbatim && a.value.verbatim == b.value.verbatim,
			"entry %d: cut %+v: %+v, parsed %+v: %+v", i, *a.key, *a.value, *b.key, *b.value)
	}
}

func TestParserReadsOverridesThatAreNotSimple(t *testing.T) {
	for _, line := range []string{`"a": |`, `"a": &x 1/s`, `"a": *x`, `? a`, `<<: *x`, `"a": [1/s, 2/m]`, `"a\u0041": 1/s`, `'a': 1/s`, `"a": "1/s"`, `"a": ~`, `"a": null`, `  "a": 1/s`, `a:1/s`, "\"a\":\t1/s", `- a`, `"a": {b: c}`} {
		var text strings.Builder
		text.WriteString("overrides:\n")
		for i := range 300 {
			fmt.Fprintf(&text, "  \"user:%d\": 1/s\n", i)
		}
		text.WriteString("  " + line + "\n")
		rest, cut := cutOverrides(text.String())
		expect.True(t, len(cut) == 0 && rest == text.String(), "%s: got %d entries", line, len(cut[1]))
	}
}

func TestSkip(t *testing.T) {
	const text = "skip:\n  addresses: [10.0.0.0/8, 192.0.2.7, \"2001:db8::/48\"]\n  routes: [/healthz, \"GET /metrics/\"]\n  preflight: true\n" +
		"rules:\n  - key: const(all)\n    limits: 1/d\n  - name: other\n    match: /api/\n    key: ip\n    limits: 1/d\n"
	file := must.Get(Parse([]byte(text), Funcs{}))(t)
	l := core.Must(core.New(file.Rules))
	preflight := http.Header{"Origin": {"https://a.example"}, "Access-Control-Request-Method": {"PUT"}}
	for _, tt := range []struct {
		method, path, from string
		header             http.Header
		skipped            string
	}{
		{"GET", "/api/x", "203.0.113.9:1", nil, ""},
		{"GET", "/api/x", "10.1.2.3:1", nil, "its address is skipped"},
		{"GET", "/api/x", "192.0.2.7:1", nil, "its address is skipped"},
		{"GET", "/api/x", "192.0.2.8:1", nil, ""},
		{"GET", "/api/x", "[2001:db8:0:5::1]:1", nil, "its address is skipped"},
		{"GET", "/api/x", "[2001:db8:1::1]:1", nil, ""},
		{"GET", "/healthz", "203.0.113.9:1", nil, "its route is skipped"},
		{"POST", "/metrics/x", "203.0.113.9:1", nil, ""},
		{"HEAD", "/metrics/x", "203.0.113.9:1", nil, "its route is skipped"},
		{"OPTIONS", "/api/x", "203.0.113.9:1", preflight, "it is a preflight"},
		{"OPTIONS", "/api/x", "203.0.113.9:1", nil, ""},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.RemoteAddr, r.Header = tt.from, tt.header
		d, err := l.Peek(r)
		expect.True(t, err == nil && (len(d.Results) == 0) == (tt.skipped != ""),
			"%s %s from %s: got %v, %v; want skipped %q", tt.method, tt.path, tt.from, d.Results, err, tt.skipped)
		all := must.Get(file.Explain(r))(t)
		if said := all[0].Applies == "no" && slices.Contains(all[0].Why, "skipped: "+tt.skipped); said != (tt.skipped != "") {
			t.Errorf("%s %s from %s: Explain says %v, want skipped %q", tt.method, tt.path, tt.from, all[0], tt.skipped)
		}
	}
}

func TestMistakesInSkip(t *testing.T) {
	for _, tt := range []struct{ skip, want string }{
		{"{addresses: [10.0.0.1/8]}", "1:20: 10.0.0.1/8 has host bits set"},
		{"{addresses: [office]}", `"office" is not a network such as 10.0.0.0/8, nor an IPv4 address`},
		{"{addresses: [\"2002:cb00:7109::/64\"]}", "2002:cb00:7109::/64 matches no client: the key of a 6to4 address is its IPv4 address; want 203.0.113.9/32"},
		{"{addresses: [\"2001:db8::/96\"]}", "is longer than /64"},
		{"{routes: [healthz]}", "1:17: "},
		{"{routes: [/ok, status.example.com/]}", `1:22: route "status.example.com/" has a host`},
		{"{routes: [/ok, GET h.example/x]}", `1:22: route "GET h.example/x" has a host`},
		{"{routes: [/a;b]}", `1:17: route "/a;b" can never be skipped`},
		{"{routes: [/a%5Cb]}", `1:17: route "/a%5Cb" can never be skipped`},
		{"{preflight: maybe}", `preflight: unknown word "maybe"`},
		{"{address: [10.0.0.0/8]}", `unknown field "address" of skip; did you mean addresses?`},
		{"{}", "skip: want addresses, routes or preflight"},
		{"{x-note: 1}", "skip: want addresses, routes or preflight"},
		{"[10.0.0.0/8]", "skip: want a table with the fields addresses, routes, preflight, got a list"},
	} {
		_, err := Check("f", []byte("skip: "+tt.skip+"\nrules:\n  - {key: ip, limits: 1/s}\n"))
		expect.True(t, err != nil && strings.Contains(err.Error(), tt.want), "%s: got %v, want %q", tt.skip, err, tt.want)
	}
}

// A file with overrides has at most 16 MiB.
func TestOverridesAreBounded(t *testing.T) {
	testpass.Thorough(t)
	const most = 16 << 20
	overrides := manyOverrides(250_000)
	for length, good := range map[int]bool{44: true, 48: false} {
		src := strings.ReplaceAll(overrides, "# a network", "# a network"+strings.Repeat("x", length))
		must.True(t, (len(src) <= most) == good && len(src) >= most/20*19 && len(src) <= most/20*21,
			"the file has %d bytes, which is not near the bound", len(src))
		_, err := Check("f", []byte(src))
		expect.Equal(t, err == nil, good, "%d bytes: %.200s", len(src), fmt.Sprint(err))
	}
}
