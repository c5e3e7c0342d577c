package rulefile_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/rulefile"
)

// badFiles are files and all their mistakes, each with line and column.
var badFiles = []struct {
	why, src string
	want     []string
}{
	{"not YAML", "rules: [", []string{
		`1:8: this is not YAML: sequence end token ']' not found`,
	}},
	{"a tab as indentation", "rules:\n\t- name: a\n", []string{
		`2:1: this is not YAML: found character '	' that cannot start any token`,
	}},
	{"an open quote", "rules:\n  - name: 'a\n", []string{
		`2:11: this is not YAML: could not find end character of single-quoted text`,
	}},
	{"nothing", "", []string{
		`1:1: there are no rules`,
	}},
	{"only a comment", "# rules\n", []string{
		`1:1: there are no rules`,
	}},
	{"a list", "- name: a\n", []string{
		`1:1: the file: want a table with the fields proxies, funcs, rules, got a list`,
	}},
	{"a text", "rules\n", []string{
		`1:1: the file: want a table with the fields proxies, funcs, rules, got a text`,
	}},
	{"no rules", "funcs: [user]\n", []string{
		`1:1: there are no rules`,
	}},
	{"rules without a value", "rules:\n", []string{
		`1:1: there are no rules`,
	}},
	{"an empty list", "rules: []\n", []string{
		`1:1: there are no rules`,
	}},
	{"rules are a table", "rules:\n  login: {key: ip}\n", []string{
		`2:3: rules: want a list, got a table`,
	}},
	{"rules are a text", "rules: none\n", []string{
		`1:8: rules: want a list, got a text`,
	}},
	{"a rule is a text", "rules:\n  - login\n  - 5\n", []string{
		`2:5: a rule: want a table with the fields name, match, headers, key, limits, tiers, cost, final, dry_run, on_failure, got a text`,
		`3:5: a rule: want a table with the fields name, match, headers, key, limits, tiers, cost, final, dry_run, on_failure, got a text`,
	}},
	{"an unknown field of the file", "rule:\n  - key: ip\n    limits: 1/s\nrules:\n  - {key: ip, limits: 1/s}\n", []string{
		`1:1: unknown field "rule" of the file; did you mean rules?`,
	}},
	{"unknown fields of a rule", "rules:\n  - nmae: a\n    keys: ip\n    limit: 1/s\n    colour: red\n", []string{
		`2:5: unknown field "nmae" of a rule; did you mean name?`,
		`3:5: unknown field "keys" of a rule; did you mean key?`,
		`4:5: unknown field "limit" of a rule; did you mean limits?`,
		`5:5: unknown field "colour" of a rule; want name, match, headers, key, limits, tiers, cost, final, dry_run, on_failure`,
	}},
	{"a field twice", "rules:\n  - key: ip\n    limits: 1/s\n    key: bearer\n", []string{
		`4:5: key is here twice, first in line 2`,
	}},
	{"no key, no limits", "rules:\n  - name: a\n  - name: b\n    key:\n    limits:\n", []string{
		`2:5: a rule needs a key, such as ip`,
		`2:5: a rule needs limits, such as 100/m`,
		`4:5: key: want a text, got nothing`,
		`5:5: limits: want a text or a list of texts, got nothing`,
	}},
	{"an empty name", "rules:\n  - name: \"\"\n    key: ip\n    limits: 1/s\n", []string{
		`2:11: name: want a text, got an empty one`,
	}},
	{"a name that does not print", "rules:\n  - name: größe\n    key: ip\n    limits: 1/s\n", []string{
		`2:11: name must be printable ASCII`,
	}},
	{"a name twice", "rules:\n  - {name: a, key: ip, limits: 1/s}\n  - {name: b, key: ip, limits: 1/s}\n  - {name: a, key: ip, limits: 2/s}\n", []string{
		`4:12: there is another rule named a, in line 2`,
	}},
	{"two rules without a name", "rules:\n  - {key: ip, limits: 1/s}\n  - {key: ip, limits: 2/s}\n", []string{
		`3:5: there is another rule named default, in line 2`,
	}},
	{"unknown keys", "rules:\n  - {name: a, key: usr, limits: 1/s}\n  - {name: b, key: \"first(apikey(X-Key), pi)\", limits: 1/s}\n  - {name: c, key: colour, limits: 1/s}\n", []string{
		`2:20: unknown key "usr"; did you mean user?`,
		`3:42: unknown key "pi"; did you mean ip?`,
		`4:20: unknown key "colour"; want ip, bearer, basic, method, pattern, apikey, header, cookie, const, first, join, user`,
	}},
	{"keys and their arguments", "rules:\n  - {name: a, key: apikey, limits: 1/s}\n  - {name: b, key: ip(), limits: 1/s}\n  - {name: c, key: header(X Y), limits: 1/s}\n  - {name: d, key: \"first()\", limits: 1/s}\n  - {name: e, key: user(1), limits: 1/s}\n", []string{
		`2:20: key apikey wants an argument: apikey(..)`,
		`3:20: key ip takes no arguments`,
		`4:20: key header: Header needs the name of a header other than Host, got "X Y"`,
		`5:27: a key is missing here, such as ip`,
		`6:20: key user is a function of the program and takes no arguments`,
	}},
	{"keys that do not end", "rules:\n  - {name: a, key: \"join(ip, pattern\", limits: 1/s}\n  - {name: b, key: ip ip, limits: 1/s}\n  - {name: c, key: ip), limits: 1/s}\n  - {name: d, key: header(a, limits: 1/s}\n", []string{
		`2:37: want , or ) after a key`,
		`3:20: unknown key "ip ip"; want ip, bearer, basic, method, pattern, apikey, header, cookie, const, first, join, user`,
		`4:22: unexpected ")" after the key`,
		`5:28: want ) after the argument of header`,
	}},
	{"a key that is a list", "rules:\n  - key: [ip, pattern]\n    limits: 1/s\n", []string{
		`2:10: key: want a text, got a list`,
	}},
	{"bad limits", "rules:\n  - key: ip\n    limits: 10/s, ten/m, 5/fortnight\n  - name: b\n    key: ip\n    limits: \"5/m;sliding-lgo\"\n", []string{
		`3:19: limit "ten/m": rate "ten" is not a whole number`,
		`3:26: limit "5/fortnight": period "fortnight" is not a duration, such as s, 15m, 500ms or day`,
		`6:14: limit "5/m;sliding-lgo": option "sliding-lgo": want an algorithm (token-bucket, fixed-window, sliding-window, sliding-log), burst=N, buckets=N or ban=PERIOD, each once at most; did you mean sliding-log?`,
	}},
	{"limits that share their state", "rules:\n  - key: ip\n    limits: 10/s, 20/1000ms\n", []string{
		`3:13: limits "10/s, 20/1000ms": limits 1 and 2 are both a token-bucket of 1s; want another period or algorithm for one of them`,
	}},
	{"limits are a number", "rules:\n  - key: ip\n    limits: 10\n", []string{
		`3:13: limit "10": want RATE/PERIOD, such as 100/m, or RATE at once`,
	}},
	{"limits are a table", "rules:\n  - key: ip\n    limits: {rate: 10}\n  - name: b\n    key: ip\n    limits: [1/s, [2/m], {}]\n", []string{
		`3:13: limits: want a text or a list of texts, got a table`,
		`6:19: limits: want a text, got a list`,
		`6:26: limits: want a text, got a table`,
	}},
	{"limits out of bounds", "rules:\n  - key: ip\n    limits:\n      - 1/10us\n      - 20000/m;sliding-log\n", []string{
		`4:9: limit "1/10us": period must be at least 1ms, got 10µs`,
		`5:9: limit "20000/m;sliding-log": rate of a sliding-log must be at most 10000, got 20000`,
	}},
	{"bad patterns", "rules:\n  - key: ip\n    limits: 1/s\n    match:\n      - POST login\n      - /a//b\n      - post /x\n      - \"/{x\"\n", []string{
		`5:9: route "POST login" has no path; did you mean "POST /login"?`,
		`6:9: route "/a//b" can never match: its path is not clean; did you mean "/a/b"?`,
		`7:9: route "post /x" can never match: its method is not in upper case; did you mean "POST /x"?`,
		`8:9: parsing "/{x": at offset 1: bad wildcard segment (must end with '}')`,
	}},
	{"patterns that cross", "rules:\n  - {name: a, key: ip, limits: 1/s, match: \"/a/{x}\"}\n  - {name: b, key: ip, limits: 1/s, match: [/c, \"/{y}/b\"]}\n", []string{
		`3:49: pattern "/{y}/b" conflicts with pattern "/a/{x}": /{y}/b and /a/{x} both match some paths, like "/a/b". But neither is more specific than the other. /{y}/b matches "/y/b", but /a/{x} doesn't. /a/{x} matches "/a/x", but /{y}/b doesn't.`,
	}},
	{"match names no function", "rules:\n  - key: ip\n    limits: 1/s\n    match: [internl, login]\n", []string{
		`4:13: unknown match "internl"; did you mean internal?`,
		`4:22: unknown match "login"; want internal`,
	}},
	{"match is a table", "rules:\n  - key: ip\n    limits: 1/s\n    match: {path: /a}\n", []string{
		`4:12: match: want a text or a list of texts, got a table`,
	}},
	{"headers", "rules:\n  - key: ip\n    limits: 1/s\n    headers: {Host: a, x-a: 1, X-A: 2, \"b c\": 3, d: }\n", []string{
		`4:15: headers: Host is not one of them; put it in front of a pattern of match: example.com/login`,
		`4:32: X-A is here twice, first in line 4`,
		`4:40: headers: "b c" is not the name of a header field`,
		`4:50: d: want a text or a list of texts, got nothing`,
	}},
	{"headers are a list", "rules:\n  - key: ip\n    limits: 1/s\n    headers: [X-Plan]\n", []string{
		`4:14: headers: want a table of header fields and values, got a list`,
	}},
	{"tiers", "rules:\n  - {name: a, key: ip, limits: 1/s, tiers: {pro: 1/s}}\n  - {name: b, key: ip, limits: 1/s, tiers: {func: plan}}\n  - {name: c, key: ip, limits: 1/s, tiers: {func: plna, pro: x, pro: 2/s}}\n  - {name: d, key: ip, limits: 1/s, tiers: plan}\n", []string{
		`2:37: tiers: func is missing: the function that tells the tier of a request`,
		`3:37: tiers: there are no tiers`,
		`4:51: unknown tier "plna"; did you mean plan?`,
		`4:62: limit "x": want RATE/PERIOD, such as 100/m, or RATE at once`,
		`4:65: pro is here twice, first in line 4`,
		`5:44: tiers: want a table with func and the limits of each tier, got an empty one`,
	}},
	{"costs", "rules:\n  - {name: a, key: ip, limits: 1/s, cost: 0}\n  - {name: b, key: ip, limits: 1/s, cost: -1}\n  - {name: c, key: ip, limits: 1/s, cost: 1.5}\n  - {name: d, key: ip, limits: 1/s, cost: exportcost}\n  - {name: e, key: ip, limits: 1/s, cost: user}\n", []string{
		`2:43: cost: want a whole number from 1 to 1000000000, or a function, got "0"`,
		`3:43: cost: want a whole number from 1 to 1000000000, or a function, got "-1"`,
		`4:43: cost: want a whole number from 1 to 1000000000, or a function, got "1.5"`,
		`5:43: unknown cost "exportcost"; did you mean exportCost?`,
		`6:43: unknown cost "user"; want exportCost`,
	}},
	{"modes", "rules:\n  - key: ip\n    limits: 1/s\n    dry_run: yes\n    on_failure: close\n", []string{
		`4:14: dry_run: unknown word "yes"; want false, true`,
		`5:17: on_failure: unknown word "close"; did you mean closed?`,
	}},
	{"functions that the program lacks", "funcs: [user, usr, plan, plan, ip, \"a b\"]\nrules:\n  - {key: usr, limits: 1/s}\n", []string{
		`1:15: the program supplies no function usr; did you mean user?`,
		`1:26: plan is here twice, first in line 1`,
		`1:32: ip is built in; give the function another name`,
		`1:36: "a b" is not a name: want letters, digits, _, - and .`,
	}},
	{"a function of another kind", "funcs: [plan]\nrules:\n  - {key: plan, limits: 1/s}\n", []string{
		`3:11: plan is not a key function of the program`,
	}},
	{"proxies", "proxies:\n  trusted: [10.0.0.0/8, 10.0.0.0/33, ten, 0.0.0.0/0]\n  hops: none\n  heeder: X\nrules: [{key: ip, limits: 1/s}]\n", []string{
		`2:25: "10.0.0.0/33" is not a network such as 10.0.0.0/8, nor an address`,
		`2:38: "ten" is not a network such as 10.0.0.0/8, nor an address`,
		`2:43: ClientIP.Trusted[0] must not contain all IPv4 addresses, got 0.0.0.0/0; want the networks of your proxies`,
		`3:9: hops: want a whole number of at least 1, got "none"`,
		`4:3: unknown field "heeder" of proxies; did you mean header?`,
	}},
	{"no proxy is trusted", "proxies: {header: X-Real-Ip}\nrules: [{key: ip, limits: 1/s}]\n", []string{
		`1:1: proxies: no proxy is trusted; want trusted, hops or unix`,
	}},
	{"a header of proxies that is none", "proxies: {hops: 1, header: X Y}\nrules: [{key: ip, limits: 1/s}]\n", []string{
		`1:28: ClientIP.Header must be the name of a header other than Host, got "X Y"`,
	}},
	{"an alias without an anchor", "rules:\n  - {key: ip, limits: *nope}\n", []string{
		`2:23: there is no anchor &nope before this alias`,
	}},
	{"a tag", "rules:\n  - {key: !!str ip, limits: 1/s}\n", []string{
		`2:11: tags such as !!str are not understood`,
	}},
	{"a mistake that an alias repeats", "rules:\n  - &a {name: a, key: ip, limits: often}\n  - {<<: *a, name: b}\n", []string{
		`2:35: limit "often": want RATE/PERIOD, such as 100/m, or RATE at once`,
	}},
	{"unknown finals", "rules:\n  - {name: a, key: ip, limits: 1/s, final: failure}\n  - {name: b, key: ip, limits: 1/s, final: user}\n", []string{
		`2:44: unknown final "failure"; did you mean failures?`,
		`3:44: unknown final "user"; want failures, tokens`,
	}},
	{"merging a text", "rules:\n  - <<: x\n    key: ip\n    limits: 1/s\n", []string{
		`2:9: << wants a table or a list of tables, got a text`,
	}},
	{"a second document", "rules: [{key: ip, limits: 1/s}]\n---\nrules: [{key: ip, limits: 1/s}]\n", []string{
		`3:1: there is a second document; a file has one`,
	}},
	{"a key that is a list, in a table", "rules:\n  - ? [a]\n    : b\n", []string{
		`3:5: this is not YAML: found an invalid key for this map`,
	}},
}

func TestEveryMistakeHasItsPlace(t *testing.T) {
	for _, tt := range badFiles {
		t.Run(tt.why, func(t *testing.T) {
			_, err := rulefile.Parse([]byte(tt.src), program)
			mistakes, ok := errors.AsType[rulefile.Mistakes](err)
			if !ok {
				t.Fatalf("got error %v, want mistakes", err)
			}
			var got []string
			for _, m := range mistakes {
				got = append(got, fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Text))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s\ngot  %q\nwant %q", tt.src, got, tt.want)
			}
		})
	}
	if len(badFiles) < 40 {
		t.Errorf("got %d bad files, want at least 40", len(badFiles))
	}
}
