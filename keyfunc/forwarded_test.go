package keyfunc

import (
	"strings"
	"testing"
)

func TestForwarded(t *testing.T) {
	behind := ClientIP{Trusted: prefixes("10.0.0.0/8", "2001:db8:ffff::/48"), Header: "forwarded"}
	const stop = "ip:unresolved:10.0.0.1"
	for _, row := range []struct {
		why, value, want string
	}{
		{"a token", "for=198.51.100.7", "ip:198.51.100.7"},
		{"a quoted string", `for="198.51.100.7"`, "ip:198.51.100.7"},
		{"a port needs quotes", `for="198.51.100.7:80"`, "ip:198.51.100.7"},
		{"the colon of a port is not a token", "for=198.51.100.7:80", stop},
		{"brackets need quotes", "for=[2001:db8::1]", stop},
		{"IPv6", `for="[2001:db8::1]"`, "ip:2001:db8::/64"},
		{"IPv6 needs brackets", `for="2001:db8::1"`, stop},
		{"mapped IPv6 needs brackets", `for="::ffff:198.51.100.7"`, stop},
		{"mapped", `for="[::ffff:c633:6407]"`, "ip:198.51.100.7"},
		{"an obfuscated port", `for="198.51.100.7:_x"`, "ip:198.51.100.7"},
		{"an obfuscated port with every letter", `for="[2001:db8::1]:_Az0._-"`, "ip:2001:db8::/64"},
		{"an obfuscated port has a letter", `for="198.51.100.7:_"`, stop},
		{"an obfuscated port with another character", `for="198.51.100.7:_a/b"`, stop},
		{"a port too large", `for="198.51.100.7:65536"`, stop},
		{"case", "FoR=198.51.100.7;PROTO=https", "ip:198.51.100.7"},
		{"any order", `by=10.0.0.1;for=198.51.100.7;host="a,b"`, "ip:198.51.100.7"},
		{"whitespace around elements and pairs", "for=1.1.1.1 ,\tfor=198.51.100.7 ; proto=https ", "ip:198.51.100.7"},
		{"empty pairs", ";for=198.51.100.7;;", "ip:198.51.100.7"},
		{"quoted pairs", `for="198.51.100\.7"`, "ip:198.51.100.7"},
		{"quoted pairs from the first letter on", `for="\1\98.51.100.7"`, "ip:198.51.100.7"},
		{"past a trusted hop", `for=1.1.1.1, for=198.51.100.7, for="10.0.0.2:80"`, "ip:198.51.100.7"},
		{"past trusted hops with quotes", `for=198.51.100.7, for=10.0.0.3;host="\",for=1.1.1.1", for="[2001:db8:ffff::1]"`, "ip:198.51.100.7"},
		{"all trusted", "for=10.0.0.3,for=10.0.0.2", "ip:10.0.0.3"},
		{"empty elements", ",for=198.51.100.7,, ,for=10.0.0.2,", "ip:198.51.100.7"},

		{"obfuscated", "for=_hidden", stop},
		{"obfuscated, in quotes", `for="_hidden:80"`, stop},
		{"unknown in any case", "for=UnKnown", stop},
		{"unknown with a port", `for="unknown:80"`, stop},
		{"unknown ends the walk", "for=198.51.100.7, for=unknown", stop},
		{"the hop is the last trusted one", "for=198.51.100.7, for=unknown, for=10.0.0.2", "ip:unresolved:10.0.0.2"},
		{"no for", "by=198.51.100.7", stop},
		{"no for ends the walk", "for=198.51.100.7, proto=https", stop},
		{"only semicolons", "for=198.51.100.7, ;;", stop},
		{"for twice", "for=198.51.100.7;for=198.51.100.8", stop},
		{"for twice in other case", "for=198.51.100.7;FOR=198.51.100.7", stop},
		{"an empty for", "for=", stop},
		{"an empty for in quotes", `for=""`, stop},
		{"a syntax error beside for", "for=198.51.100.7;proto", stop},
		{"a value missing beside for", "for=198.51.100.7;proto=", stop},
		{"a name missing", "for=198.51.100.7;=https", stop},
		{"spaces around =", "for = 198.51.100.7", stop},
		{"text behind a quoted string", `for="198.51.100.7"x`, stop},
		{"text behind a token", `for=198.51.100.7 x`, stop},
		{"a longer name", "xfor=198.51.100.7", stop},
		{"a bare address", "198.51.100.7", stop},

		{"a quote that is never closed", `for=198.51.100.7, for="10.0.0.2`, stop},
		{"a quote that was never opened", `for=198.51.100.7, for=10.0.0.2"`, stop},
		{"an escaped quote does not close", `for="198.51.100.7\"`, stop},
		{"nor in another parameter", `for=198.51.100.7;x="a\"`, stop},
		{"an escaped backslash before the quote", `for=198.51.100.7;x="a\\"`, "ip:198.51.100.7"},
		{"an escaped quote after an escaped backslash", `for=1.1.1.1, for=198.51.100.7;x="\\\",for=9.9.9.9"`, "ip:198.51.100.7"},
		{"a quoted comma is not the end of an element", `for=1.1.1.1;x=", for=198.51.100.7"`, "ip:1.1.1.1"},
		{"the client's open quote does not swallow the proxy's element", `for="1.1.1.1, for=198.51.100.7`, "ip:198.51.100.7"},
		{"nor one that a proxy's quotes seem to close", `for=1.1.1.1;x=", for="[2001:db8::7]:1"`, "ip:2001:db8::/64"},
		{"nor a trailing backslash", `for=1.1.1.1;x="\, for="198.51.100.7"`, "ip:198.51.100.7"},
		{"nor a hop that is walked past", `for="x, for="198.51.100.7", for="10.0.0.2"`, "ip:198.51.100.7"},
	} {
		t.Run(row.why, func(t *testing.T) {
			checkClientIP(t, behind, request("10.0.0.1:80", "Forwarded", row.value), row.want)
		})
	}
}

func TestForwardedLines(t *testing.T) {
	behind := ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: "Forwarded"}
	for _, row := range []struct {
		why   string
		lines []string
		want  string
	}{
		{"one list", []string{"for=1.1.1.1, for=198.51.100.7", "for=10.0.0.2"}, "ip:198.51.100.7"},
		{"a quoted string ends with its line", []string{`for=198.51.100.7;x="`, `",for=10.0.0.2`}, "ip:unresolved:10.0.0.2"},
		{"an open quote harms only its line", []string{`for="`, "for=198.51.100.7"}, "ip:198.51.100.7"},
	} {
		t.Run(row.why, func(t *testing.T) {
			r := request("10.0.0.1:80")
			r.Header["Forwarded"] = row.lines
			checkClientIP(t, behind, r, row.want)
		})
	}
}

// TestForwardedWork would take hours if the parser searched for quotes or backslashes repeatedly, in quadratic time.
func TestForwardedWork(t *testing.T) {
	behind := ClientIP{Trusted: prefixes("10.0.0.0/8"), Header: "Forwarded"}
	for _, unit := range []string{`"`, `\`, `\"`, `""`, `,`, `;`, `a="",`, `a="\"";`} {
		value := strings.Repeat(unit, 1<<20/len(unit)) + `"`
		checkClientIP(t, behind, request("10.0.0.1:80", "Forwarded", value), "ip:unresolved:10.0.0.1")
	}
}
