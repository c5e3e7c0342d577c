package headers_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/must"
)

func number(t testing.TB, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || s != strconv.FormatInt(n, 10) {
		t.Errorf("%q is not plain digits", s)
	}
	return n
}

// item is one member of a field: a name and its parameters, in order.
type item struct {
	name   string
	params []string
}

// parseList reads a List of Strings with Integer parameters, by the grammar of RFC 9651.
func parseList(s string) (items []item, err error) {
	for {
		var it item
		if it.name, s, err = parseString(s); err != nil {
			return nil, err
		}
		for strings.HasPrefix(s, ";") {
			end := strings.IndexAny(s[1:]+",", ";,") + 1
			name, value, _ := strings.Cut(s[1:end], "=")
			if name == "qu" && value == `"concurrent-requests"` {
				name, value = "u", "0"
			}
			if len(name) != 1 || name[0] < 'a' || name[0] > 'z' {
				return nil, fmt.Errorf("parameter %q", name)
			}
			if n, err := strconv.ParseUint(value, 10, 64); err != nil || n > 999_999_999_999_999 {
				return nil, fmt.Errorf("integer %q", value)
			}
			it.params = append(it.params, name)
			s = s[end:]
		}
		items = append(items, it)
		if s == "" {
			return items, nil
		}
		if s[0] != ',' {
			return nil, fmt.Errorf("%q follows an item", s)
		}
		s = s[1:]
	}
}

func parseString(s string) (value, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", fmt.Errorf("no string: %q", s)
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return value, s[i+1:], nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", fmt.Errorf("escape in %q", s)
			}
			value += string(s[i])
		case c < ' ' || c > '~':
			return "", "", fmt.Errorf("byte %#x in %q", c, s)
		default:
			value += string(c)
		}
	}
	return "", "", fmt.Errorf("no end of %q", s)
}

// FuzzIETF checks that both fields parse and name the same policies, whatever the rule's name.
func FuzzIETF(f *testing.F) {
	f.Add("api", 100, int64(60000), 50, int64(30000), int64(-1), true)
	f.Add(`"\`, 1, int64(1), 0, int64(1), int64(1), false)
	f.Add(`";q=1,"x`, 0, int64(315360000000), 0, int64(0), int64(0), true)
	f.Fuzz(func(t *testing.T, name string, rate int, periodMillis int64, remaining int, waitMillis, retryMillis int64, two bool) {
		l := core.Every(rate, time.Duration(periodMillis)*time.Millisecond)
		wait, retry := time.Duration(waitMillis)*time.Millisecond, time.Duration(retryMillis)*time.Millisecond
		if !printable(name) || l.Validate() != nil || remaining < 0 || remaining > rate || wait < 0 || wait > longest || retry > longest {
			t.Skip("no store reports this")
		}
		results := []core.Result{result(name, l, remaining, wait, wait)}
		if retry >= 0 {
			results[0] = denied(results[0], retry)
		}
		if two {
			results = append(results, result(name, l.Using(core.SlidingWindow), remaining, wait, wait))
		}
		h := http.Header{}
		headers.IETF(h, decision(noon, results...))
		policies := must.Get(parseList(h.Get("RateLimit-Policy")))(t)
		states := must.Get(parseList(h.Get("RateLimit")))(t)
		if len(policies) != len(results) || len(states) != len(results) {
			t.Fatalf("%d policies and %d states for %d results", len(policies), len(states), len(results))
		}
		for i, p := range policies {
			if !strings.HasPrefix(p.name, name) || p.name != states[i].name || i > 0 && p.name == policies[0].name {
				t.Errorf("name %q in %v", name, h)
			}
			if strings.Join(p.params, "") != "qw" || !strings.HasPrefix("rt", strings.Join(states[i].params, "")) {
				t.Errorf("parameters of %v", h)
			}
		}
	})
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
