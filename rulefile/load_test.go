package rulefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/rulecases"
	"github.com/spillgate/spillgate/rulefile"
)

func TestDryRunVariable(t *testing.T) {
	src := "rules: [{name: a, key: ip, limits: 1/s}, {name: b, key: ip, limits: 1/s, dry_run: true}, {name: c, key: ip, limits: 1/s}]"
	path := filepath.Join(t.TempDir(), "f.yaml")
	must.Do(t, os.WriteFile(path, []byte(src), 0o600))
	for value, want := range map[string]string{
		"": "false true false", "all": "true true true", "a": "true true false", " c , a": "true true true", "none": "false true false", ",": "false true false",
	} {
		t.Setenv("SPILLGATE_DRY_RUN", value)
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		f, err := rulefile.Load(path, program)
		slog.SetDefault(before)
		must.Do(t, err)
		expect.Equal(t, fmt.Sprint(f.Rules[0].DryRun, f.Rules[1].DryRun, f.Rules[2].DryRun), want, "%q", value)
		expect.Equal(t, value == "none", strings.Contains(log.String(), "rule=none"), "%q: %q", value, &log)
	}
}

func TestLoadOfNoFile(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "none.yaml"), t.TempDir()} {
		f, err := rulefile.Load(path, program)
		expect.True(t, err != nil && f == nil && strings.HasPrefix(err.Error(), "spillgate: "), "got %v, %v", f, err)
		_, isDir := os.Stat(path)
		expect.True(t, isDir == nil || errors.Is(err, fs.ErrNotExist), "got %v, want it to wrap fs.ErrNotExist", err)
	}
}

// badFiles are files with mistakes.
var badFiles = rulecases.Bad()

func TestEveryMistakeHasItsPlace(t *testing.T) {
	for _, tt := range badFiles {
		t.Run(tt.Why, func(t *testing.T) {
			_, err := rulefile.Parse([]byte(tt.Text), program)
			var mistakes rulefile.Mistakes
			must.True(t, errors.As(err, &mistakes), "got error %v, want mistakes", err)
			var got []string
			for _, m := range mistakes {
				got = append(got, fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Text))
			}
			expect.Elements(t, got, tt.Mistakes, "%s", tt.Text)
		})
	}
	expect.AtLeast(t, len(badFiles), 40, "bad files")
}

func TestOfflineKeysEqualKeysOfRequests(t *testing.T) {
	for proxies, want := range map[string][]string{
		"":                                     {"ip:203.0.113.7", "ip:203.0.113.7", "ip:2001:db8:0:1::/64", "ip:host.example"},
		"{trusted: 10.0.0.0/8, ipv6_bits: 48}": {"ip:203.0.113.7", "ip:203.0.113.7", "ip:2001:db8::/48", "ip:host.example"},
	} {
		f, err := rulefile.Offline("f", []byte("proxies: "+proxies+"\nrules: [{key: ip, limits: 1/s}]"))
		if proxies == "" {
			f, err = rulefile.Offline("f", []byte("rules: [{key: ip, limits: 1/s}]"))
		}
		must.Do(t, err)
		for i, client := range []string{"203.0.113.7", "::ffff:203.0.113.7", "2001:db8:0:1::5", "Host.example"} {
			r := &http.Request{RemoteAddr: client, Header: http.Header{"X-Forwarded-For": {"192.0.2.9"}}}
			key, err := f.Rules[0].Key(r)
			expect.True(t, key == want[i] && err == nil, "%s: got %q, %v; want %q", client, key, err, want[i])
		}
	}
}

func TestNeeds(t *testing.T) {
	f, err := rulefile.Offline("f", []byte(`funcs: [user, plan, price, internal, tokens]
rules:
  - {name: a, key: ip, limits: 1/s, match: [POST /a, /b/], cost: 2, cost_after: failures}
  - {name: b, key: "first(apikey(x-key), cookie(sid), bearer, join(basic, pattern, method, const(x)))", limits: 1/s}
  - {name: c, key: user, limits: 1/s, match: [internal, GET example.com/a, example.org/b], headers: {x-plan: pro}, tiers: {func: plan, pro: 1/s}, cost: price, cost_after: tokens}
`))
	must.Do(t, err)
	want := [][]string{
		{},
		{"header Authorization", "header Cookie", "header X-Key", "route pattern", "user"},
		{"function internal", "function plan", "function price", "function tokens", "function user", "header X-Plan", "host"},
	}
	for i, w := range want {
		expect.Elements(t, f.Needs(i), w, "rule %d", i)
	}
}
