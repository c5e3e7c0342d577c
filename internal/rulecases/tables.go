package rulecases

// badTables have mistakes in their YAML, or unknown, missing or repeated fields.
var badTables = []BadFile{
	{"not YAML", "rules: [", []string{`1:8: this is not YAML: sequence end token ']' not found`}},
	{"a tab as indentation", "rules:\n\t- name: a\n", []string{`2:1: this is not YAML: a tab cannot indent a line; use spaces`}},
	{"an open quote", "rules:\n  - name: 'a\n", []string{`2:11: this is not YAML: could not find end character of single-quoted text`}},
	{"nothing", "", []string{`1:1: there are no rules`}},
	{"only a comment", "# rules\n", []string{`1:1: there are no rules`}},
	{"a list", "- name: a\n", []string{`1:1: the file: want a table with the fields proxies, funcs, skip, rules, got a list`}},
	{"a text", "rules\n", []string{`1:1: the file: want a table with the fields proxies, funcs, skip, rules, got a text`}},
	{"no rules", "funcs: [user]\n", []string{`1:1: there are no rules`}},
	{"rules without a value", "rules:\n", []string{`1:1: there are no rules`}},
	{"an empty list", "rules: []\n", []string{`1:1: there are no rules`}},
	{"rules are a table", "rules:\n  login: {key: ip}\n", []string{`2:3: rules: want a list, got a table`}},
	{"rules are a text", "rules: none\n", []string{`1:8: rules: want a list, got a text`}},
	{"a rule is a text", "rules:\n  - login\n  - 5\n", []string{
		`2:5: a rule: want a table with the fields name, match, headers, key, limits, tiers, overrides, cost, cost_after, dry_run, on_failure, lease, max_wait, got a text`,
		`3:5: a rule: want a table with the fields name, match, headers, key, limits, tiers, overrides, cost, cost_after, dry_run, on_failure, lease, max_wait, got a text`,
	}},
	{"an unknown field of the file", "rule:\n  - key: ip\n    limits: 1/s\nrules:\n  - {key: ip, limits: 1/s}\n", []string{
		`1:1: unknown field "rule" of the file; did you mean rules?`,
	}},
	{"unknown fields of a rule", "rules:\n  - nmae: a\n    keys: ip\n    limit: 1/s\n    colour: red\n", []string{
		`2:5: unknown field "nmae" of a rule; did you mean name?`,
		`3:5: unknown field "keys" of a rule; did you mean key?`,
		`4:5: unknown field "limit" of a rule; did you mean limits?`,
		`5:5: unknown field "colour" of a rule; want name, match, headers, key, limits, tiers, overrides, cost, cost_after, dry_run, on_failure, lease, max_wait`,
	}},
	{"a field twice", "rules:\n  - key: ip\n    limits: 1/s\n    key: bearer\n", []string{`4:5: key is here twice, first in line 2`}},
	{"no key, no limits", "rules:\n  - name: a\n  - name: b\n    key:\n    limits:\n", []string{
		`2:5: a rule needs a key, such as ip`,
		`2:5: a rule needs limits, such as 100/m`,
		`4:5: key: want a text, got nothing`,
		`5:5: limits: want a text or a list of texts, got nothing`,
	}},
	{"an empty name", "rules:\n  - name: \"\"\n    key: ip\n    limits: 1/s\n", []string{`2:11: name: want a text, got an empty one`}},
	{"a name that does not print", "rules:\n  - name: größe\n    key: ip\n    limits: 1/s\n", []string{`2:11: name must be printable ASCII`}},
	{"a name twice", "rules:\n  - {name: a, key: ip, limits: 1/s}\n  - {name: b, key: ip, limits: 1/s}\n  - {name: a, key: ip, limits: 2/s}\n", []string{
		`4:12: there is another rule named a, in line 2`,
	}},
	{"two rules without a name", "rules:\n  - {key: ip, limits: 1/s}\n  - {key: ip, limits: 2/s}\n", []string{
		`3:5: there is another rule named default, in line 2`,
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
	{"proxies", "proxies:\n  trusted: [10.0.0.0/8, 10.0.0.0/33, ten, 0.0.0.0/0]\n  hops: none\n  ipv6_bits: 99999999999999999999\n  heeder: X\nrules: [{key: ip, limits: 1/s}]\n", []string{
		`2:25: "10.0.0.0/33" is not a network such as 10.0.0.0/8, nor an address`,
		`2:38: "ten" is not a network such as 10.0.0.0/8, nor an address`,
		`2:43: ClientIP.Trusted[0] must not contain all IPv4 addresses, got 0.0.0.0/0; want the networks of your proxies`,
		`3:9: hops: want a whole number from 1 to 32, got "none"`,
		`4:14: ipv6_bits: want a whole number from 32 to 128, got "99999999999999999999"`,
		`5:3: unknown field "heeder" of proxies; did you mean header?`,
	}},
	{"no proxy is trusted", "proxies: {header: X-Real-Ip}\nrules: [{key: ip, limits: 1/s}]\n", []string{
		`1:1: proxies: no proxy is trusted; want trusted, hops or unix`,
	}},
	{"a header of proxies that is none", "proxies: {hops: 1, header: X Y}\nrules: [{key: ip, limits: 1/s}]\n", []string{
		`1:28: ClientIP.Header must be the name of a header other than Host, got "X Y"`,
	}},
	{"an alias without an anchor", "rules:\n  - {key: ip, limits: *nope}\n", []string{`2:23: there is no anchor &nope before this alias`}},
	{"a tag", "rules:\n  - {key: !!str ip, limits: 1/s}\n", []string{`2:11: tags such as !!str are not understood`}},
	{"a mistake that an alias repeats", "rules:\n  - &a {name: a, key: ip, limits: often}\n  - {<<: *a, name: b}\n", []string{
		`2:35: limit "often": want RATE/PERIOD, such as 100/m, or RATE at once`,
	}},
	{"merging a text", "rules:\n  - <<: x\n    key: ip\n    limits: 1/s\n", []string{`2:9: << wants a table or a list of tables, got a text`}},
	{"a second document", "rules: [{key: ip, limits: 1/s}]\n---\nrules: [{key: ip, limits: 1/s}]\n", []string{
		`3:1: a file has one document; this is the second`,
	}},
	{"a key that is a list, in a table", "rules:\n  - ? [a]\n    : b\n", []string{`3:5: this is not YAML: found an invalid key for this map`}},
}
