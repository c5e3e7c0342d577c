package testing

import (
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/rulefile"
)

func TestRules(t *testing.T) {
	funcs := rulefile.Funcs{ // the program's functions, by the names that the file uses
		Tiers: map[string]func(*http.Request) string{"plan": func(*http.Request) string { return "free" }},
	}
	if _, err := rulefile.Load("testdata/spillgate.yaml", funcs); err != nil {
		t.Fatal(err) // every mistake, with its line and column
	}
}
