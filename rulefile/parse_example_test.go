package rulefile_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/rulefile"
)

const rules = `
funcs: [user]
rules:
  - {name: login, match: POST /login, key: ip, limits: 5/10m;ban=1h, cost_after: failures}
  - {name: api, match: /api/, key: user, limits: "10/s, 120/m"}
`

func ExampleParse() {
	funcs := rulefile.Funcs{Keys: map[string]core.KeyFunc{"user": keyfunc.BasicUser}}
	file, err := rulefile.Parse([]byte(rules), funcs)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rule := range file.Rules {
		fmt.Println(rule.Name, rule.Routes, rule.Limits)
	}
	// Output:
	// login [POST /login] [5/10m;ban=1h]
	// api [/api/] [10/1s 120/1m]
}

// Every mistake has its line and column.
func ExampleParse_mistakes() {
	_, err := rulefile.Parse([]byte(strings.Replace(rules, "limits", "limit", 1)), rulefile.Funcs{})
	var mistakes rulefile.Mistakes
	if errors.As(err, &mistakes) {
		for _, m := range mistakes {
			fmt.Printf("%d:%d: %s\n", m.Line, m.Column, m.Text)
		}
	}
	// Output:
	// 2:9: the program supplies no function user: it supplies none
	// 4:48: unknown field "limit" of a rule; did you mean limits?
}

func ExampleLoad() {
	_, err := rulefile.Load("missing.yaml", rulefile.Funcs{})
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output: true
}

// Check is for tools and tests that lack the program's functions. Names under funcs stand for them.
func ExampleCheck() {
	file, err := rulefile.Check("spillgate.yaml", []byte(rules))
	fmt.Println(len(file.Rules), err)
	// Output: 2 <nil>
}

// Offline is for tools that decide past requests.
func ExampleOffline() {
	file, err := rulefile.Offline("spillgate.yaml", []byte(rules))
	fmt.Println(len(file.Rules), err)
	// Output: 2 <nil>
}

func ExampleFile_Explain() {
	file, err := rulefile.Check("spillgate.yaml", []byte(rules))
	if err != nil {
		fmt.Println(err)
		return
	}
	explanations, err := file.Explain(httptest.NewRequest("POST", "/login", nil))
	for _, e := range explanations {
		fmt.Println(e.Rule, e.Applies, e.Limits)
	}
	fmt.Println(err)
	// Output:
	// login yes 5/10m;ban=1h
	// api no 10/1s, 120/1m
	// <nil>
}

func ExampleSchema() {
	fmt.Println(strings.Contains(string(rulefile.Schema()), `"on_failure"`))
	// Output: true
}
