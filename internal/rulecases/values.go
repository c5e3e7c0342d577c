package rulecases

import (
	"strings"

	"github.com/spillgate/spillgate/internal/algorithm"
)

var badValues = []BadFile{
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
	{"a key that is a list", "rules:\n  - key: [ip, pattern]\n    limits: 1/s\n", []string{`2:10: key: want a text, got a list`}},
	{"bad limits", "rules:\n  - key: ip\n    limits: 10/s, ten/m, 5/fortnight\n  - name: b\n    key: ip\n    limits: \"5/m;sliding-lgo\"\n", []string{
		`3:19: limit "ten/m": rate "ten" is not a whole number`,
		`3:26: limit "5/fortnight": period "fortnight" is not a duration, such as s, 15m, 500ms or day`,
		`6:14: limit "5/m;sliding-lgo": option "sliding-lgo": want an algorithm (` + strings.Join(algorithm.Names(algorithm.InFlight), ", ") + `), burst=N, buckets=N, ban=PERIOD, tz=ZONE, from=DAY or calendar, each once at most; did you mean sliding-log?`,
	}},
	{"limits that share their state", "rules:\n  - key: ip\n    limits: 10/s, 20/1000ms\n", []string{
		`3:13: limits "10/s, 20/1000ms": limits 1 and 2 are both a token-bucket of 1s; want another period or algorithm for one of them`,
	}},
	{"limits are a number", "rules:\n  - key: ip\n    limits: 10\n", []string{`3:13: limit "10": want RATE/PERIOD, such as 100/m, or RATE at once`}},
	{"limits are a table", "rules:\n  - key: ip\n    limits: {rate: 10}\n  - name: b\n    key: ip\n    limits: [1/s, [2/m], {}]\n", []string{
		`3:13: limits: want a text or a list of texts, got a table`,
		`6:19: limits: want a text, got a list`,
		`6:26: limits: want a text, got a table`,
	}},
	{"limits out of bounds", "rules:\n  - key: ip\n    limits:\n      - 1/10us\n      - 20000/m;sliding-log\n", []string{
		`4:9: limit "1/10us": period must be at least 1ms, got 10µs`,
		`5:9: limit "20000/m;sliding-log": rate of a sliding-log must be at most 1000, got 20000`,
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
	{"match names no function", "funcs: [user, internal]\nrules:\n  - key: ip\n    limits: 1/s\n    match: [internl, login]\n", []string{
		`5:13: unknown match "internl"; did you mean internal?`,
		`5:22: unknown match "login"; want internal`,
	}},
	{"match is a table", "rules:\n  - key: ip\n    limits: 1/s\n    match: {path: /a}\n", []string{
		`4:12: match: want a text or a list of texts, got a table`,
	}},
	{"headers", "rules:\n  - key: ip\n    limits: 1/s\n    headers: {Host: a, x-a: 1, X-A: 2, \"b c\": 3, d: }\n", []string{
		`4:15: headers: write the host in front of a pattern in match instead: example.com/login`,
		`4:32: X-A is here twice, first in line 4`,
		`4:40: headers: "b c" is not the name of a header field`,
		`4:50: d: want a text or a list of texts, got nothing`,
	}},
	{"headers are a list", "rules:\n  - key: ip\n    limits: 1/s\n    headers: [X-Plan]\n", []string{
		`4:14: headers: want a table of header fields and values, got a list`,
	}},
	{"tiers", "rules:\n  - {name: a, key: ip, limits: 1/s, tiers: {pro: 1/s}}\n  - {name: b, key: ip, limits: 1/s, tiers: {func: plan}}\n  - {name: c, key: ip, limits: 1/s, tiers: {func: plna, pro: x, pro: 2/s}}\n  - {name: d, key: ip, limits: 1/s, tiers: plan}\n", []string{
		`2:37: tiers: func is missing: the function that returns the tier of a request`,
		`3:37: tiers: there are no tiers`,
		`4:51: unknown tier function "plna"; did you mean plan?`,
		`4:62: limit "x": want RATE/PERIOD, such as 100/m, or RATE at once`,
		`4:65: pro is here twice, first in line 4`,
		`5:44: tiers: want a table with func and the limits of each tier, got a text`,
	}},
	{"costs", "rules:\n  - {name: a, key: ip, limits: 1/s, cost: 0}\n  - {name: b, key: ip, limits: 1/s, cost: -1}\n  - {name: c, key: ip, limits: 1/s, cost: 1.5}\n  - {name: d, key: ip, limits: 1/s, cost: exportcost}\n  - {name: e, key: ip, limits: 1/s, cost: user}\n  - {name: f, key: ip, limits: 1000000000/s, cost: 1000000000}\n  - {name: g, key: ip, limits: 1/s, cost: 1000000001}\n", []string{
		`2:43: cost: want a whole number from 1 to 1000000000, or a function, got "0"`,
		`3:43: cost: want a whole number from 1 to 1000000000, or a function, got "-1"`,
		`4:43: cost: want a whole number from 1 to 1000000000, or a function, got "1.5"`,
		`5:43: unknown cost "exportcost"; did you mean exportCost?`,
		`6:43: unknown cost "user"; want exportCost`,
		`8:43: cost: want a whole number from 1 to 1000000000, or a function, got "1000000001"`,
	}},
	{"modes", "rules:\n  - key: ip\n    limits: 1/s\n    dry_run: yes\n    on_failure: close\n", []string{
		`4:14: dry_run: unknown word "yes"; want false, true`,
		`5:17: on_failure: unknown word "close"; did you mean closed?`,
	}},
	{"unknown costs afterwards", "rules:\n  - {name: a, key: ip, limits: 1/s, cost_after: failure}\n  - {name: b, key: ip, limits: 1/s, cost_after: user}\n", []string{
		`2:49: unknown cost_after "failure"; did you mean failures?`,
		`3:49: unknown cost_after "user"; want failures, tokens`,
	}},
	{"leases", "rules:\n  - {name: a, key: ip, limits: 1/s, lease: 100}\n  - {name: b, key: ip, limits: 1/s, lease: -1s}\n  - {name: c, key: ip, limits: 1/s, lease: soon}\n", []string{
		`2:44: lease: want a time such as 100ms, got "100"`,
		`3:44: lease: want a time such as 100ms, got "-1s"`,
		`4:44: lease: want a time such as 100ms, got "soon"`,
	}},
	{"waits", "rules:\n  - {name: a, key: ip, limits: 1/s, max_wait: 5}\n  - {name: b, key: ip, limits: 1/s, max_wait: 2h}\n", []string{
		`2:47: max_wait: want a time such as 5s, got "5"`,
		`3:47: max wait must be between 0 and 1h0m0s, got 2h0m0s`,
	}},
	{"waits that cannot be", "rules:\n  - key: ip\n    limits: 5/m;fixed-window\n    tiers: {func: plan, pro: 9/m;ban=1h}\n    overrides: {\"ip:192.0.2.1\": 20 at once}\n    max_wait: 1s\n    lease: 1s\n", []string{
		`4:30: pro: max wait 1s needs token buckets without a ban, got limit 1, 9/1m;ban=1h`,
		`5:33: ip:192.0.2.1: max wait 1s needs token buckets without a ban, got limit 1, 20 at once`,
		`6:15: max wait must be 0 for a rule with a lease, got 1s`,
		`6:15: max wait 1s needs token buckets without a ban, got limit 1, 5/1m;fixed-window`,
	}},
	{"leases that cannot be", "rules:\n  - {name: a, key: ip, limits: 1/s, lease: 1m}\n  - {name: b, key: ip, limits: 1/s;sliding-log, lease: 1s, cost_after: failures}\n", []string{
		`2:44: lease must be 0 or between 1ms and 10s, got 1m0s`,
		`3:56: lease must be 0 for a rule with CostAfter, which holds its cost, got 1s`,
		`3:56: lease 1s needs token buckets without a ban or fixed windows, got limit 1, 1/1s;sliding-log`,
	}},
}
