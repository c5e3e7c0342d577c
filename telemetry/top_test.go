package telemetry

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

func deny(tel *Telemetry, rule, key string) { denyAt(tel, time.Time{}, rule, key) }

func denyAt(tel *Telemetry, at time.Time, rule, key string) {
	limit := core.PerMinute(1)
	o := &core.Observation{Claims: []core.Claim{{Rule: rule, Key: key, Limits: []core.Limit{limit}}}}
	o.Decision = core.Decision{At: at, Results: []core.Result{{Rule: rule, Limit: limit}}}
	tel.Observe(nil, o) //nolint:staticcheck // no context is needed without a log
}

func TestTopIsExactForFewKeys(t *testing.T) {
	tel := New(Options{Unmask: true})
	for i, user := range []string{"user:c", "user:a", "user:b", "user:d"} {
		for range 10 * (i + 1) {
			deny(tel, "r", user)
		}
	}
	deny(tel, "another", "user:a")
	var got []string
	for _, row := range tel.Top("r", 3) {
		got = append(got, fmt.Sprintf("%s %d %d", row.Key, row.Count, row.Over))
	}
	expect.Elements(t, got, []string{"user:d 40 0", "user:b 30 0", "user:a 20 0"}, "got")
	expect.True(t, tel.Top("r", 0) == nil && tel.Top("r", -1) == nil && tel.Top("none", 3) == nil && len(tel.Top("r", 100)) == 4, "n is not heeded")
}

// A new key replaces the key with the lowest count, and its own count is too high by that count.
func TestNewKeyTakesThePlaceOfTheLowest(t *testing.T) {
	tel := New(Options{Unmask: true, Top: 3})
	for i, key := range []string{"user:a", "user:b", "user:c"} {
		for range 5 - i {
			deny(tel, "r", key)
		}
	}
	deny(tel, "r", "user:d")
	rows := tel.Top("r", 3)
	if len(rows) != 3 || rows[0].Key != "user:a" || rows[2].Key != "user:d" && rows[1].Key != "user:d" {
		t.Fatalf("got %+v", rows)
	}
	for _, row := range rows {
		if row.Key == "user:d" && (row.Count != 4 || row.Over != 3) || row.Key != "user:d" && row.Over != 0 {
			t.Errorf("got %+v", row)
		}
	}
}

// Allowed requests, and requests that only a dry run would deny, do not count.
func TestTopCountsDenialsOnly(t *testing.T) {
	tel := New(Options{})
	l := limited(t, tel, []core.Rule{
		{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(1)}},
		{Name: "trial", Key: byHeader, Limits: []core.Limit{core.PerHour(1)}, DryRun: true},
	})
	for range 3 {
		ask(l, "ann")
	}
	rows := tel.Top("r", 10)
	expect.True(t, len(rows) == 1 && rows[0].Count == 2, "got %+v, want two denials", rows)
	expect.True(t, tel.Top("trial", 10) == nil, "keys of a dry run")
}

// The most denied keys among many are found, in 256 KB.
func TestTopOfZipf(t *testing.T) {
	testpass.Thorough(t)
	const denials, n, users = 2_000_000, 20, 1_000_000
	tel := New(Options{Unmask: true})
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.05, 1, users)
	exact := make([]int, users+1)
	limit := core.PerHour(1)
	o := &core.Observation{Claims: []core.Claim{{Rule: "r", Limits: []core.Limit{limit}}}}
	o.Decision = core.Decision{Results: []core.Result{{Rule: "r", Limit: limit}}}
	for range denials {
		user := int(zipf.Uint64())
		exact[user]++
		o.Claims[0].Key = strconv.Itoa(user)
		tel.Observe(t.Context(), o)
	}
	var top []int // users, the most denied ones first
	for user, count := range exact {
		if count > 1000 {
			top = append(top, user)
		}
	}
	slices.SortFunc(top, func(a, b int) int { return cmp.Compare(exact[b], exact[a]) })
	found := 0
	for _, row := range tel.Top("r", n) {
		user := must.Get(strconv.Atoi(row.Key))(t)
		if slices.Contains(top[:n], user) {
			found++
		}
		if true_ := uint64(exact[user]); row.Count < true_ || row.Count-row.Over > true_ {
			t.Errorf("%s: count %d, too high by %d at most, but %d denials", row.Key, row.Count, row.Over, true_)
		}
	}
	expect.AtLeast(t, found, n-1, "found of the top %d", n)
	expect.AtMost(t, sizeOf(&tel.rule("r").top), 256<<10, "%d keys of %d take bytes", len(tel.rule("r").top.heap), users)
}

// sizeOf returns the memory of t, with the largest size that the runtime may use for a map of that many elements.
func sizeOf(t *top) int {
	size := cap(t.heap)*int(unsafe.Sizeof(t.heap[0])) + len(t.index)*4*int(unsafe.Sizeof(uint64(0))+unsafe.Sizeof(t.heap[0]))
	for _, e := range t.heap {
		size += int(unsafe.Sizeof(*e)) + cap(e.key)
	}
	return size
}

// A flood of new keys does not displace a key that is denied more often than each of them.
func TestFloodDoesNotDisplaceTheTop(t *testing.T) {
	tel := New(Options{Top: 50, Unmask: true})
	for i := range 100_000 {
		deny(tel, "r", fmt.Sprint("user:flood", i))
		if i%20 == 0 { // more than one in 50
			deny(tel, "r", "user:abuser")
		}
	}
	rows := tel.Top("r", 50)
	expect.True(t, len(rows) == 50 && rows[0].Key == "user:abuser", "got %+v first of %d", rows[0], len(rows))
}

func TestTopHas500KeysOfARuleByDefault(t *testing.T) {
	tel := New(Options{})
	for i := range 1000 {
		deny(tel, "r", fmt.Sprint("user:", i))
	}
	expect.Equal(t, len(tel.Top("r", 1000)), 500, "of 1,000 keys are remembered")
}

func TestLongKeysAreCut(t *testing.T) {
	long := "header:x:" + strings.Repeat("a", 1<<20)
	for _, unmask := range []bool{true, false} {
		tel := New(Options{Unmask: unmask})
		deny(tel, "r", long)
		deny(tel, "r", long+"b")
		deny(tel, "r", long)
		rows := tel.Top("r", 10)
		expect.True(t, len(rows) == 2 && rows[0].Count == 2 && len(rows[0].Key) <= maxKey+3 && rows[0].ID != rows[1].ID,
			"unmask %v: got %+v", unmask, rows)
		expect.True(t, strings.HasSuffix(rows[0].Key, "…") == unmask && (rows[0].Key == rows[1].Key) == unmask, "unmask %v: got %+v", unmask, rows)
		key, ok := tel.FindKey("r", rows[0].ID)
		expect.True(t, !ok, "found %d bytes of a long key", len(key))
	}
}

func TestFindKey(t *testing.T) {
	tel := New(Options{})
	deny(tel, "r", "user:ann")
	row := tel.Top("r", 1)[0]
	key, ok := tel.FindKey("r", row.ID)
	expect.True(t, key == "user:ann" && ok, "got %q, %v", key, ok)
	for _, c := range [][2]string{{"r", "x"}, {"r", ""}, {"none", row.ID}} {
		key, ok := tel.FindKey(c[0], c[1])
		expect.True(t, !ok, "%q: got %q", c, key)
	}
}

func TestMask(t *testing.T) {
	const hash = "[0-9a-f]{12}"
	m := newMasker(false)
	for key, want := range map[string]string{
		"ip:203.0.113.9":                       `ip:203\.0\.113\.0/24`,
		"ip:2001:db8:1:2::/64":                 `ip:2001:db8:1::/48`,
		"ip:2001:db8:1:2::3/128":               `ip:2001:db8:1::/48`,
		"ip:64:ff9b:1::cb00:7109":              `ip:64:ff9b:1::/48`,
		"ip:fe80::1%eth0":                      `ip:fe80::/48`,
		"ip:unix":                              `ip:unix`,
		"ip:unresolved:10.0.0.1":               `ip:unresolved:10\.0\.0\.0/24`,
		"ip:unresolved:unix":                   `ip:unresolved:unix`,
		"ip:garbage":                           `ip:` + hash,
		"user:42":                              `user:` + hash,
		"basic:ann":                            `basic:` + hash,
		"bearer:secret":                        `bearer:` + hash,
		"cookie:id:secret":                     `cookie:` + hash,
		"hash:0123":                            `hash:` + hash,
		"key:secret":                           `key:` + hash,
		"header:x-tenant:acme":                 `header:` + hash,
		"const:all":                            `const:all`,
		"method:GET":                           `method:GET`,
		"route:/users/{id}":                    `route:/users/\{id\}`,
		`join:ip:203.0.113.9|route:/users`:     `join:ip:203\.0\.113\.0/24\|route:/users`,
		`join:user:a\|b\\|method:GET`:          `join:user:` + hash + `\|method:GET`,
		`join:join:user:a\|user:b|method:GET`:  `join:join:user:` + hash + `\|user:` + hash + `\|method:GET`,
		"ann@example.com":                      hash,
		"session:abc":                          hash,
		"ann@example.com:ip:203.0.113.9":       hash,
		"":                                     hash,
		"join:":                                `join:` + hash,
		`join:a\`:                              `join:` + hash,
		"route:/users/{id}\n<script>":          `(?s)route:.*`,
		"unix:x":                               hash,
		"ip:unresolved:ip:unresolved:10.0.0.1": `ip:unresolved:` + hash,
	} {
		got := m.text(key)
		expect.True(t, regexp.MustCompile("^"+want+"$").MatchString(got), "%q: got %q, want %s", key, got, want)
	}
}

// Hashes of one key are equal within a process, and differ between processes, so that nobody can look keys up in a table.
func TestMaskIsKeyedPerProcess(t *testing.T) {
	a, b := newMasker(false), newMasker(false)
	first, again := a.text("user:42"), a.text("user:42")
	expect.True(t, first == again && a.text("user:42") != a.text("user:43") && a.text("user:42") != b.text("user:42"),
		"the hash does not depend on the key and the process alone")
}

// Keys with the same mask have separate rows.
func TestKeysWithOneMaskStaySeparate(t *testing.T) {
	tel := New(Options{})
	deny(tel, "r", "ip:203.0.113.1")
	deny(tel, "r", "ip:203.0.113.2")
	rows := tel.Top("r", 10)
	expect.True(t, len(rows) == 2 && rows[0].Key == "ip:203.0.113.0/24" && rows[1].Key == rows[0].Key && rows[0].ID != rows[1].ID,
		"got %+v", rows)
}
