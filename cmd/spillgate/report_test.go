package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestReadNumbers(t *testing.T) {
	for _, tt := range []struct {
		why    string
		header map[string]string
		want   numbers
		ok     bool
	}{
		{"GitHub's form", map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "1772366404"},
			numbers{"5", "3", "1772366404 (in 3.8s)"}, true},
		{"GitHub's form is preferred", map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3",
			"X-RateLimit-Reset": "1772366404", "RateLimit": `"a";r=1;t=2`, "RateLimit-Policy": `"a";q=9;w=9`},
			numbers{"5", "3", "1772366404 (in 3.8s)"}, true},
		{"a reset that is a date", map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "noon"},
			numbers{"5", "3", "noon"}, false},
		{"no remaining", map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Reset": "1772366404"},
			numbers{"5", "", "1772366404 (in 3.8s)"}, false},
		{"the draft's form", map[string]string{"RateLimit": `"chi";r=3;t=2`, "RateLimit-Policy": `"chi";q=5;w=10`},
			numbers{"5", "3", "in 2s"}, true},
		{"the tightest of several", map[string]string{"RateLimit": `"a-1s";r=8;t=1,"a-1m";r=9;t=3,"a-1h";r=99`,
			"RateLimit-Policy": `"a-1s";q=10;w=1,"a-1m";q=60;w=60,"a-1h";q=100;w=3600`}, numbers{"60", "9", "in 3s"}, true},
		{"nothing to come back", map[string]string{"RateLimit": `"a";r=0`, "RateLimit-Policy": `"a";q=0;w=1`},
			numbers{"0", "0", ""}, true},
		{"a limit without its policy", map[string]string{"RateLimit": `"a";r=1`, "RateLimit-Policy": `"b";q=2;w=1`}, numbers{}, false},
		{"no headers", nil, numbers{}, false},
	} {
		h := http.Header{}
		for name, value := range tt.header {
			h.Set(name, value)
		}
		got, ok := readNumbers(reply{header: h, at: noon.Add(200 * time.Millisecond)})
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %t, want %+v, %t", tt.why, got, ok, tt.want, tt.ok)
		}
	}
}

func TestTable(t *testing.T) {
	long := visit{router: "chi"}
	for i := range 99 {
		long.replies = append(long.replies, replied(200, fmt.Sprint(99-i), ""))
	}
	long.replies = append(long.replies, replied(429, "0", "5"))
	last := replied(200, "7", "")
	long.later = &last
	broken := visit{router: "gin", replies: []reply{replied(400, "", "")}}
	unlimited := visit{router: "echo", replies: []reply{replied(200, "1", "")}}

	var b strings.Builder
	(&report{w: &b}).table([]visit{long, broken, unlimited, {router: "echov5"}})
	want := `
ROUTER   ADMITTED   THEN                    LIMIT   REMAINING   RESET                RETRY-AFTER   AFTER THE WAIT
chi      99         429 Too Many Requests   2       0           1772366405 (in 5s)   5             200 OK
gin      0          400 Bad Request         -       -           -                    -             -
echo     1          -                       2       1           1772366405 (in 5s)   -             -
echov5   0          no reply                -       -           -                    -             -

`
	if "\n"+b.String() != want {
		t.Errorf("table:\n%s\nwant:%s", b.String(), want)
	}
}
