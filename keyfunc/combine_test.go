package keyfunc

import (
	"errors"
	"fmt"
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
		{"readable", Join(key("user:42"), key("route:/users/{id}")), "join:user:42|route:/users/{id}"},
		{"one element", Join(key("user:42")), "join:user:42"},
		{"the separator in an element", Join(key("user:a|b"), key("c")), `join:user:a\|b|c`},
		{"the escape in an element", Join(key(`user:a\`), key(`|c`)), `join:user:a\\|\|c`},
		{"nested", Join(Join(key("a"), key("b")), key("c")), `join:join:a\|b|c`},
		{"all elements are required", Join(key("a"), Header("X")), "error"},
		{"also the first", Join(Header("X"), key("a")), "error"},
		{"an empty element is none", Join(key("a"), key("")), "error"},
		{"a bad element", Join(key("a"), fails(core.ErrBadKey)), "bad"},
		{"a bad element behind one that is missing", Join(Header("X"), fails(core.ErrBadKey)), "bad"},
		{"an invalid element behind one that is missing", Join(Header("X"), fails(core.ErrInvalid)), "invalid"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, row.fn, request(""), row.want) })
	}
}

func fails(err error) core.KeyFunc {
	return func(*http.Request) (string, error) { return "", fmt.Errorf("a custom func: %w", err) }
}

// Changing the list after construction has no effect, and no func is called after an error other than ErrNoKey.
func TestJoinAndFirstStopAtError(t *testing.T) {
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
		{"an empty key counts as missing", First(empty, Header("B")), "header:b:2"},
		{"none", First(Header("A"), Bearer, BasicUser, Cookie("x"), Header("C")), "error"},
		{"only an empty key", First(empty), "error"},
		{"a bad key is not passed over", First(fails(core.ErrBadKey), panics), "bad"},
		{"nor behind one that is missing", First(Header("A"), fails(core.ErrBadKey), panics), "bad"},
		{"nor in a nested First", First(First(Header("A"), fails(core.ErrBadKey)), panics), "bad"},
		{"nor in a Join", First(Join(Header("A"), fails(core.ErrBadKey)), panics), "bad"},
		{"nor in a Hash", First(Hash([]byte("s"), fails(core.ErrBadKey)), panics), "bad"},
		{"nor an invalid one", First(fails(core.ErrInvalid), panics), "invalid"},
	} {
		t.Run(row.why, func(t *testing.T) { checkKey(t, row.fn, request("", "B", "2"), row.want) })
	}
}

// A custom func may wrap two errors. ErrNoKey must not hide the more serious one.
func TestFirstSkipsOnlyErrNoKey(t *testing.T) {
	for _, worse := range []error{core.ErrBadKey, core.ErrInvalid} {
		fn := First(fails(errors.Join(core.ErrNoKey, worse)), panics)
		if key, err := fn(request("")); key != "" || !errors.Is(err, worse) {
			t.Errorf("got %q, %v, want %v", key, err, worse)
		}
	}
}

// The error about an empty key has the same text whether the key func stands alone or is combined.
func TestEmptyKeyHasOneErrorText(t *testing.T) {
	empty := func(*http.Request) (string, error) { return "", nil }
	for why, key := range map[string]core.KeyFunc{"alone": empty, "First": First(empty), "Join": Join(empty, empty), "Hash": Hash([]byte("0123456789abcdef"), empty)} {
		l := core.Must(core.New([]core.Rule{core.PerDay(1).By(key)}))
		_, err := l.Check(&http.Request{})
		if want := `spillgate: rule "default": the key func returned an empty key: no key`; !errors.Is(err, core.ErrNoKey) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", why, err, want)
		}
	}
}
