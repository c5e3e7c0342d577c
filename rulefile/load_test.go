package rulefile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
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
	watch(t, func(w *watched) {
		for i, value := range []string{"api", "", "all"} {
			w.t.Setenv("SPILLGATE_DRY_RUN", value)
			w.write(w.path, rate(20+i))
			w.wait(3 * time.Second)
			expect.Equal(t, w.limiter.Rules()[0].DryRun, value != "", "%q, read by Watch: a dry run", value)
		}
	})
}

func TestLoadOfNoFile(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "none.yaml"), t.TempDir()} {
		f, err := rulefile.Load(path, program)
		expect.True(t, err != nil && f == nil && strings.HasPrefix(err.Error(), "spillgate: "), "got %v, %v", f, err)
		_, isDir := os.Stat(path)
		expect.True(t, isDir == nil || errors.Is(err, fs.ErrNotExist), "got %v, want it to wrap fs.ErrNotExist", err)
	}
}

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
			key, err := f.Rules[0].Key(&http.Request{RemoteAddr: client, Header: http.Header{"X-Forwarded-For": {"192.0.2.9"}}})
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

func rate(n int) string {
	return fmt.Sprintf("rules:\n  - name: api\n    key: const(all)\n    limits: %d/h\n", n)
}

func TestWatchSeesEveryWayToChangeAFile(t *testing.T) {
	ways := map[string]func(w *watched){
		"written in place": func(w *watched) { w.write(w.path, rate(20)) },
		"renamed": func(w *watched) {
			w.write(w.path+".new", rate(20))
			must.Do(w.t, os.Rename(w.path+".new", w.path))
		},
		"truncated, and written later": func(w *watched) {
			must.Do(w.t, os.Truncate(w.path, 0))
			w.wait(700 * time.Millisecond)
			w.write(w.path, rate(20))
		},
		"deleted, and created later": func(w *watched) {
			must.Do(w.t, os.Remove(w.path))
			w.wait(5 * time.Second)
			w.wantRate(10, "without a file, the rules stay")
			w.write(w.path, rate(20))
		},
		"with the same size and time": func(w *watched) {
			info, err := os.Stat(w.path)
			must.Do(w.t, err)
			w.write(w.path, rate(20))
			must.Do(w.t, os.Chtimes(w.path, info.ModTime(), info.ModTime()))
		},
	}
	for way, change := range ways {
		t.Run(way, func(t *testing.T) {
			watch(t, func(w *watched) {
				change(w)
				w.wait(3 * time.Second)
				w.wantRate(20, "3s after the change")
				expect.Equal(t, len(w.seen), 2, "active rates were %v", w.seen)
			})
		})
	}
}

// Kubernetes mounts a ConfigMap as links: spillgate.yaml -> ..data/spillgate.yaml, and ..data -> a directory. It replaces ..data.
func TestWatchFollowsLinksAsInKubernetes(t *testing.T) {
	watch(t, func(w *watched) {
		dir := filepath.Dir(w.path)
		data := func(name string, n int) {
			must.Do(w.t, os.Mkdir(filepath.Join(dir, name), 0o700))
			w.write(filepath.Join(dir, name, "spillgate.yaml"), rate(n))
			must.Do(w.t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
			must.Do(w.t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		}
		data("..1", 10)
		must.Do(w.t, os.Remove(w.path))
		must.Do(w.t, os.Symlink(filepath.Join("..data", "spillgate.yaml"), w.path))
		w.wait(3 * time.Second)
		data("..2", 20)
		must.Do(w.t, os.RemoveAll(filepath.Join(dir, "..1")))
		w.wait(3 * time.Second)
		w.wantRate(20, "3s after ..data was replaced")
	})
}

// The first half of a file may be valid YAML.
func TestWatchDoesNotLoadHalfAFile(t *testing.T) {
	watch(t, func(w *watched) {
		whole := rate(2) + "  - name: rest\n    key: const(all)\n    limits: 5/s\n"
		for n := range len(whole) {
			w.write(w.path, whole[:n+1])
			w.wait(50 * time.Millisecond)
			must.True(t, len(w.limiter.Rules()) != 1 || w.rate() == 10, "half of the file is active: %v", w.limiter.Rules())
		}
		w.wait(3 * time.Second)
		w.wantRate(2, "3s after the end")
		expect.Equal(t, len(w.limiter.Rules()), 2, "%v", w.limiter.Rules())
	})
}

func TestBadFileChangesNothing(t *testing.T) {
	watch(t, func(w *watched) {
		w.write(w.path, rate(20)+"    limit: 5\n  - nmae: x\n")
		w.wait(10 * time.Second)
		w.wantRate(10, "with mistakes in the file")
		for _, want := range []string{"spillgate.yaml:5:5", `unknown field \"limit\"`, `spillgate.yaml:6:5 text="unknown field \"nmae\"`, "the active rules stay", "mistakes=4"} {
			n := strings.Count(w.log.String(), want)
			expect.True(t, n == 1, "the log says %s %d times, want once:\n%s", want, n, &w.log)
		}
		n := strings.Count(w.log.String(), "rules not loaded")
		expect.True(t, n == 1, "logged %d times, want once:\n%s", n, &w.log)
		w.write(w.path, rate(10))
		w.wait(3 * time.Second)
		w.write(w.path, rate(30))
		w.wait(3 * time.Second)
		w.wantRate(30, "with a good file")
		expect.True(t, len(w.reports) == 4 && strings.HasSuffix(w.reports[0], " <nil>") && strings.Contains(w.reports[1], "unknown field") &&
			w.reports[2] == w.reports[0] && w.reports[3][:8] != w.reports[0][:8] && w.reports[1][:8] == w.reports[0][:8],
			"got reports %q, want loaded, rejected, the same hash again, another", w.reports)
	})
}

func TestWatchLogsWhatChanges(t *testing.T) {
	watch(t, func(w *watched) {
		w.write(w.path, rate(20)+"    match: /api/\n    key: ip\n")
		w.wait(3 * time.Second)
		w.wantRate(10, "a field twice")
		w.write(w.path, "rules:\n  - {name: api, key: ip, limits: 20/s, match: /api/, dry_run: true, on_failure: closed, cost: 2, cost_after: failures, headers: {B: c, A: b}}\n  - {name: n, key: ip, limits: 1/s}\n")
		w.wait(3 * time.Second)
		want := "api: 10/1h → 20/1s, match every request → /api/, dry run false → true, on failure local → closed, key const(all) → ip, cost none → 2, cost_after none → failures, headers none → A: b, B: c; n: new, 1/1s"
		expect.True(t, strings.Contains(w.log.String(), want), "the log does not say %s:\n%s", want, &w.log)
		w.write(w.path, "rules:\n  - {name: n, key: ip, limits: 1/s, tiers: {func: plan, pro: 2/s}, lease: 100ms}\n")
		w.wait(3 * time.Second)
		want = "n: lease 0s → 100ms, tiers none → plan: pro 2/1s; api: removed"
		expect.True(t, strings.Contains(w.log.String(), want), "the log does not say %s:\n%s", want, &w.log)
		for _, tt := range []struct{ proxies, skip, limit, want string }{
			{"1", "/a", "1/s", "proxies: edited; skip: edited; n: lease 100ms → 0s, max wait 0s → 3s, tiers plan: pro 2/1s → none, overrides none → 1"},
			{"1", "/a # a comment", "1/s", "changes=none"},
			{"1", "[/a, /b]", "0/s", `changes="skip: edited; n: overrides edited"`},
			{"2", "[/a,\n  /b]", "0/s", `changes="proxies: edited"`},
		} {
			w.log.Reset()
			w.write(w.path, fmt.Sprintf("proxies: {hops: %s}\nskip:\n  routes: %s\nrules:\n  - {name: n, key: ip, limits: 1/s, max_wait: 3s, overrides: {'ip:192.0.2.1': %s}}\n", tt.proxies, tt.skip, tt.limit))
			w.wait(3 * time.Second)
			expect.True(t, strings.Contains(w.log.String(), tt.want), "the log does not say %s:\n%s", tt.want, &w.log)
		}
	})
}

func TestWatchMistakes(t *testing.T) {
	for _, o := range []rulefile.Options{{Interval: -1}, {Interval: 30}, {}} {
		var l *core.Limiter
		if o.Interval != 0 {
			l = core.Must(core.New(mustParse(t, rate(1)).Rules))
		}
		err := rulefile.Watch(t.Context(), "f", l, program, o)
		expect.ErrorIs(t, err, core.ErrInvalid, "%+v", o)
		expect.True(t, strings.HasPrefix(err.Error(), "spillgate: "), "%+v: got error %q without prefix", o, err)
	}
}

// A watched is a limiter that follows a file, in a synctest bubble.
type watched struct {
	t       *testing.T
	path    string
	limiter *core.Limiter
	log     bytes.Buffer
	reports []string
	seen    map[int]bool // rates that were active
}

// watch runs test with a limiter that follows a file with a rate of 10 per hour, and that also has rules of the program.
func watch(t *testing.T, test func(w *watched), also ...core.Rule) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, path: filepath.Join(dir, "spillgate.yaml"), seen: make(map[int]bool)}
		w.write(w.path, rate(10))
		file := must.Get(rulefile.Load(w.path, program))(t)
		w.limiter = core.Must(core.New(append(file.Rules, also...)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- rulefile.Watch(ctx, w.path, w.limiter, program, rulefile.Options{
				Log:  slog.New(slog.NewTextHandler(&w.log, nil)),
				Also: also,
				Report: func(_, hash string, err error) {
					line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
					w.reports = append(w.reports, fmt.Sprintf("%.8s %s", hash, line))
				},
			})
		}()
		w.wait(500 * time.Millisecond)
		test(w)
		cancel()
		expect.NoError(t, <-done, "once the context is done")
	})
}

func (w *watched) write(path, text string) {
	w.t.Helper()
	must.Do(w.t, os.WriteFile(path, []byte(text), 0o600))
}

// wait lets time pass and records which rates are active in the meantime.
func (w *watched) wait(d time.Duration) {
	for ; d > 0; d -= 50 * time.Millisecond {
		time.Sleep(min(d, 50*time.Millisecond))
		synctest.Wait()
		w.seen[w.rate()] = true
	}
}

func (w *watched) rate() int { return w.limiter.Rules()[0].Limits[0].Rate }

func (w *watched) wantRate(n int, why string) {
	w.t.Helper()
	if got := w.rate(); got != n {
		w.t.Errorf("%s: got a rate of %d, want %d\n%s", why, got, n, &w.log)
	}
}
