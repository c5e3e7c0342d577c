package redisx_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"github.com/spillgate/spillgate/internal/testpass"
)

// sizes are the rows of the table in docs/redis.md: limits, the number of requests of each pair, and the time between them. A row
// that holds does not settle.
var sizes = []struct {
	row, limits string
	requests    int
	apart       time.Duration
	hold        bool
}{
	{"one token bucket", "1000/h", 1, time.Second, false},
	{"one fixed window", "1000/h;fixed-window", 1, time.Second, false},
	{"two token buckets", "1000/h, 10000/d", 1, time.Second, false},
	{"three token buckets", "1000/h, 10000/d, 100000/168h", 1, time.Second, false},
	{"one sliding window of 10 sub-buckets, all in use", "1000/100h;sliding-window", 10, 10 * time.Hour, false},
	{"one sliding window of 60 sub-buckets, all in use", "10000/h;sliding-window;buckets=60", 60, time.Minute, false},
	{"one sliding log of 10 requests", "1000/h;sliding-log", 10, time.Second, false},
	{"one sliding log of 1,000 requests", "1000/h;sliding-log", 1000, time.Second, false},
	{"one request held, as of a rule with CostAfter", "1000/h", 1, time.Second, true},
}

// tableRow matches a row of the table.
var tableRow = regexp.MustCompile(`(?m)^\| (.+?) \| ([0-9,]+) \|$`)

func TestSizesInTheDocsMatchAServer(t *testing.T) {
	testpass.Thorough(t)
	text := must.Get(os.ReadFile("../../docs/redis.md"))(t)
	documented := make(map[string]int)
	for _, row := range tableRow.FindAllStringSubmatch(string(text), -1) {
		documented[row[1]], _ = strconv.Atoi(strings.ReplaceAll(row[2], ",", ""))
	}
	client := redistest.Start(t).Client(t)
	if err := client.Do(t.Context(), "debug", "set-active-expire", "0").Err(); err != nil { // so that keys stay until all are written
		t.Fatal(err)
	}
	for _, row := range sizes {
		got := memoryPerPair(t, client, core.Claim{Limits: core.MustParseLimits(row.limits), Hold: row.hold}, row.requests, row.apart)
		if want := documented[row.row]; got < want*85/100 || got > want*115/100 {
			t.Errorf("%s: %d bytes, and the docs say %d", row.row, got, want)
		}
		delete(documented, row.row)
	}
	if len(documented) > 0 {
		t.Errorf("the docs have rows that nobody measures: %v", documented)
	}
}

// memoryPerPair returns how much memory a server uses for each of some pairs, its table of keys included.
func memoryPerPair(t *testing.T, client *redis.Client, claim core.Claim, requests int, apart time.Duration) int {
	t.Helper()
	pairs := 12_000 / max(1, requests/4)
	flush(t, client)
	return fillPairs(t, client, claim, pairs, requests, apart) / pairs
}

// fillPairs sends so many requests of each pair and returns how much memory that takes.
func fillPairs(t *testing.T, client *redis.Client, claim core.Claim, pairs, requests int, apart time.Duration) int {
	t.Helper()
	s := redisx.New(client, options)
	take(t, s, claimOf("warm", claim.Limits...))
	before := usedMemory(t, client)
	for range requests {
		claims := make([]core.Claim, pairs)
		for i := range claims {
			claim.Rule, claim.Key = "login", fmt.Sprintf("ip:203.0.%d.%d", 100+i/156, 100+i%156)
			claims[i] = claim
		}
		for len(claims) > 0 {
			n := min(len(claims), 64)
			take(t, s, claims[:n]...)
			claims = claims[n:]
		}
		s.Shift(apart)
	}
	return usedMemory(t, client) - before
}

// usedMemory returns how much memory a server uses, without what it uses for its clients.
func usedMemory(t *testing.T, client *redis.Client) int {
	t.Helper()
	for _, command := range []string{"script flush sync", "function flush sync", "slowlog reset"} { // so that what they keep does not count
		var words []any
		for word := range strings.FieldsSeq(command) {
			words = append(words, word)
		}
		must.Do(t, client.Do(context.Background(), words...).Err())
	}
	info := client.Info(context.Background(), "memory").Val()
	field := func(name string) (n int) {
		_, rest, _ := strings.Cut(info, name)
		must.Get(fmt.Sscan(rest, &n))(t)
		return n
	}
	return field("\nused_memory:") - field("\nmem_clients_normal:")
}
