package proxies

import "strings"

// An attack is a set of header fields with which a client tries to get another client's key.
type attack struct {
	why    string
	fields []string
}

var attacks = []attack{
	{"nothing", nil},
	{"an address", []string{"X-Forwarded-For: 203.0.113.1"}},
	{"several lines", []string{"X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 203.0.113.2", "X-Forwarded-For: 203.0.113.3"}},
	{"the addresses of the proxies", []string{
		"X-Forwarded-For: 203.0.113.1, " + edge + ", " + inner,
		"Forwarded: for=203.0.113.1, for=" + edge + ", for=" + inner,
	}},
	{"IPv6 and mapped addresses", []string{"X-Forwarded-For: 2001:db8::1, ::ffff:127.0.0.2, [::1]:80", `Forwarded: for="[2001:db8::1]:80"`}},
	{"garbage", []string{"X-Forwarded-For: ,, ;\"'\x80\\, localhost, 1.2.3, 999.1.1.1,", "Forwarded: ;;=,for=,=for, for"}},
	{"100 elements", []string{"X-Forwarded-For: " + hundred("203.0.113.1"), "Forwarded: " + hundred("for=203.0.113.1")}},
	{"100 empty elements", []string{"X-Forwarded-For: " + hundred(""), "Forwarded: " + hundred("")}},
	{"another header", []string{"X-Real-IP: 203.0.113.1", "X-Client-IP: 203.0.113.1", "X-Cluster-Client-IP: 203.0.113.1", "Via: 1.1 203.0.113.1"}},
	{"a header of a content network", []string{"CF-Connecting-IP: 203.0.113.1", "True-Client-IP: 203.0.113.1", "Fastly-Client-IP: 203.0.113.1"}},
	{"a name that looks alike", []string{"X_Forwarded_For: 203.0.113.1", "X-Forwarded-For-: 203.0.113.1"}},
	{"a header to drop on the way", []string{"Connection: X-Forwarded-For, Forwarded, X-Real-IP", "X-Forwarded-For: 203.0.113.1"}},
	{"Forwarded", []string{"Forwarded: for=203.0.113.1;proto=https;by=203.0.113.2"}},
	{"Forwarded on several lines", []string{"Forwarded: for=203.0.113.1", `Forwarded: for="203.0.113.2"`}},
	{"a quote without an end", []string{`Forwarded: for="203.0.113.1`}},
	{"a quote without a beginning", []string{`Forwarded: for=203.0.113.1"`}},
	{"an escaped quote", []string{`Forwarded: for="203.0.113.1\"`}},
	{"a quote that would swallow what follows", []string{`Forwarded: for=203.0.113.1;x="`}},
	{"a backslash at the end", []string{`Forwarded: for="203.0.113.1\`}},
	{"a semicolon at the end", []string{"Forwarded: for=203.0.113.1;"}},
	{"unknown and obfuscated nodes", []string{"Forwarded: for=unknown, for=_hidden, for=\"_hidden:_80\""}},
}

func hundred(element string) string { return strings.Repeat(element+", ", 99) + element }
