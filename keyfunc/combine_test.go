package keyfunc

import (
	"errors"
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/core"
)

func TestJoin(t *testing.T) {
	key := func(s string) core.KeyFunc { return func(*http.Request) (string, error) { return s, nil } }
	for _, row := range []struct {
		why  string
		fn   core.KeyFunc
		want string
	}{
		{"readable", Join(key("user:42"), key("route:GET /users/{id}")), "join:user:42|route:GET /users/{id}"},
		{"one part", Join(key("user:42")), "join:user:42"},
		{"the separator in a part", Join(key("user:a|b"), key("c")), `join:user:a\|b|c`},
		{"the escape in a part", Join(key(`user:a\`), key(`|c`)), `join:user:a\\|\|c`},
		{"nested", Join(Join(key("a"), key("b")), key("c")), `join:join:a\|b|c`},
		{"each part is needed", Join(key("a"), Header("X")), "error"},
		{"an empty part is none", Join(key("a"), key("")), "error"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, row.fn, request(""), row.want) })
	}
}

// A func must not see its list change, nor go on behind an error.
func TestJoinStopsAtError(t *testing.T) {
	broken := errors.New("directory is down")
	fns := []core.KeyFunc{func(*http.Request) (string, error) { return "half a key", broken }, panics}
	join, first := Join(fns...), First(fns...)
	fns[0] = panics
	for _, fn := range []core.KeyFunc{join, first} {
		if key, err := fn(request("")); key != "" || err != broken {
			t.Errorf("got %q, %v", key, err)
		}
	}
}

func panics(*http.Request) (string, error) { panic("must not be called") }

func TestFirst(t *testing.T) {
	empty := func(*http.Request) (string, error) { return "", nil }
	for _, row := range []struct {
		why  string
		fn   core.KeyFunc
		want string
	}{
		{"the first that finds one", First(Header("A"), Header("B"), panics), "header:b:2"},
		{"no further than the first", First(Header("B"), panics), "header:b:2"},
		{"an empty key is none", First(empty, Header("B")), "header:b:2"},
		{"none", First(Header("A"), Bearer, BasicUser, Cookie("x"), Header("C")), "error"},
		{"only an empty key", First(empty), "error"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, row.fn, request("", "B", "2"), row.want) })
	}
}
