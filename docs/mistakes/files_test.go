package mistakes

import (
	"net/http"

	"github.com/spillgate/spillgate/rulefile"
)

func file(src string) func() error {
	return func() error {
		_, err := rulefile.Parse([]byte(src), rulefile.Funcs{
			Tiers: map[string]func(*http.Request) string{"plan": func(*http.Request) string { return "" }},
		})
		return err
	}
}

var ofFiles = []mistake{
	{"an unknown field", file("rules:\n  - key: ip\n    limit: 5/m"), ":3:5: ", `unknown field "limit"`, "did you mean limits?"},
	{"an unknown key", file("rules:\n  - key: pi\n    limits: 5/m"), ":2:10: ", `unknown key "pi"`, "did you mean ip?"},
	{"a key without its argument", file("rules:\n  - key: apikey\n    limits: 5/m"), ":2:10: ", "apikey wants an argument", "apikey(..)"},
	{"an unknown algorithm in a file", file("rules:\n  - key: ip\n    limits: 5/m;fixedwindow"), ":3:13: ", algorithms, "did you mean fixed-window?"},
	{"a limit of a file", file("rules:\n  - key: ip\n    limits: 10/s, 5/minuet"), ":3:19: ", `period "minuet"`, "did you mean minute?"},
	{"an unknown mode", file("rules:\n  - key: ip\n    limits: 5/m\n    on_failure: close"), ":4:17: ", `unknown word "close"`, "did you mean closed?"},
	{"an unknown function", file("rules:\n  - key: ip\n    limits: 5/m\n    tiers: {func: plna, pro: 9/m}"), ":4:19: ", `unknown tier function "plna"`, "did you mean plan?"},
	{"a cost of nothing", file("rules:\n  - key: ip\n    limits: 5/m\n    cost: 0"), ":4:11: ", `got "0"`, "want a whole number from 1"},
	{"a pattern of a file", file("rules:\n  - key: ip\n    limits: 5/m\n    match: /users/:id"), ":4:12: ", "wildcard of another router", `did you mean "/users/{id}"?`},
	{"a network of a file", file("proxies: {trusted: [10.0.0.0/33]}\nrules: [{key: ip, limits: 1/s}]"), ":1:21: ", `"10.0.0.0/33" is not a network`, "such as 10.0.0.0/8"},
	{"yes", file("rules:\n  - key: ip\n    limits: 5/m\n    dry_run: yes"), ":4:14: ", `unknown word "yes"`, "want false, true"},
}
