package redisx_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// limitsOf returns one limit of each algorithm.
func everyAlgorithm(rate int, period time.Duration) (limits []core.Limit) {
	for a := core.TokenBucket; a <= core.SlidingLog; a++ {
		limits = append(limits, core.Every(rate, period).Using(a))
	}
	return limits
}

func claimOf(key string, limits ...core.Limit) core.Claim {
	return core.Claim{Rule: "rule", Key: key, Limits: limits}
}

// take decides claims as a core.Limiter does.
func take(t *testing.T, s *redisx.Store, claims ...core.Claim) []core.Result {
	t.Helper()
	if results, ok := s.TakeLocal(claims, nil); ok {
		return results
	}
	results, err := s.Take(context.Background(), claims, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func allowed(results []core.Result) bool {
	for _, r := range results {
		if !r.Allowed {
			return false
		}
	}
	return true
}

// calls returns how often a server ran a command.
func calls(t *testing.T, c *redis.Client, command string) int {
	t.Helper()
	var n int
	_, stats, ok := strings.Cut(c.Info(context.Background(), "commandstats").Val(), "cmdstat_"+command+":calls=")
	if ok {
		if _, err := fmt.Sscan(strings.SplitN(stats, ",", 2)[0], &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// opening matches what the client sends when it connects, and the store when it looks for evictions.
var opening = regexp.MustCompile(`"(hello|client|info)"`)

func TestARequestIsOneFlight(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	three := core.MustParseLimits("100/s, 1000/m, 5000/h;fixed-window")
	take(t, s, claimOf("warm", three...))
	monitor := watch(t, client.Options().Addr)
	for range 10 {
		take(t, s, claimOf("ip:1", three...), claimOf("user:2", three...))
	}
	client.Do(context.Background(), "echo", "end")
	sent := 0
	for line := range monitor {
		if strings.Contains(line, `"echo"`) {
			break
		}
		if !strings.Contains(line, " lua]") && !opening.MatchString(line) {
			sent++
			if !strings.Contains(line, `"evalsha"`) || !strings.Contains(line, "ip:1") || !strings.Contains(line, "user:2") {
				t.Errorf("sent %s", line)
			}
		}
	}
	if sent != 10 {
		t.Errorf("%d commands for 10 requests", sent)
	}
	if n := calls(t, client, "evalsha"); n != 11 {
		t.Errorf("EVALSHA ran %d times for 11 requests", n)
	}
}

func TestAPairIsReadAndWrittenOnce(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := claimOf("k", core.MustParseLimits("5/m, 9/h, 99/d;fixed-window, 50/h;sliding-window")...)
	for range 10 {
		take(t, s, c)
	}
	for command, want := range map[string]int{"time": 10, "hmget": 10, "hset": 20} {
		if got := calls(t, client, command); got != want {
			t.Errorf("%s: %d calls for 5 admitted and 5 denied requests, want %d", command, got, want)
		}
	}
}

// watch returns what the server at addr is told from now on.
func watch(t *testing.T, addr string) <-chan string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	lines := make(chan string, 1000)
	fmt.Fprint(conn, "MONITOR\r\n")
	r := bufio.NewReader(conn)
	if ok, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(ok, "+OK") {
		t.Fatalf("MONITOR: %q, %v", ok, err)
	}
	go func() {
		defer close(lines)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	return lines
}

func TestADenialChangesNothing(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	ctx := context.Background()
	for _, l := range everyAlgorithm(3, time.Hour) {
		take(t, s, core.Claim{Rule: "rule", Key: "denied", Limits: []core.Limit{l}, Cost: 3})
	}
	take(t, s, claimOf("other", everyAlgorithm(9, time.Hour)...))
	before := client.Do(ctx, "debug", "digest").Val()
	for _, l := range everyAlgorithm(3, time.Hour) {
		if allowed(take(t, s, claimOf("other", everyAlgorithm(9, time.Hour)...), claimOf("denied", l), claimOf("new", l))) {
			t.Errorf("%v was not denied", l)
		}
		peek := claimOf("other", everyAlgorithm(9, time.Hour)...)
		peek.Peek = true
		take(t, s, peek)
	}
	if after := client.Do(ctx, "debug", "digest").Val(); after != before {
		t.Errorf("digest %v before and %v after", before, after)
	}
}

func TestExpiries(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	ctx := context.Background()
	for _, row := range []struct {
		why, limits string
		cost        int
		min, max    time.Duration
	}{
		{"a bucket until it is empty", "10/m", 5, 30 * time.Second, 30 * time.Second},
		{"a window until its end", "10/d;fixed-window", 1, 0, 24 * time.Hour},
		{"a sub-bucket until one period after its end", "10/m;sliding-window", 1, time.Minute, 66 * time.Second},
		{"an instant for a period", "10/m;sliding-log", 1, time.Minute, time.Minute},
		{"the longest of all", "10/s, 1000/d", 1, 86400 * time.Millisecond, 86400 * time.Millisecond},
		{"the longest of two logs", "10/m;sliding-log, 10/h;sliding-log", 1, time.Hour, time.Hour},
		{"as long as Redis can", "1/3650d;burst=28", 28, 280 * 365 * 24 * time.Hour, 285 * 365 * 24 * time.Hour},
	} {
		flush(t, client)
		c := claimOf("k", core.MustParseLimits(row.limits)...)
		c.Cost = row.cost
		if !allowed(take(t, s, c)) {
			t.Fatalf("%s was denied", row.limits)
		}
		for _, key := range client.Keys(ctx, "*").Val() {
			ms := client.Do(ctx, "pttl", key).Val().(int64)
			if ms < 0 || ms < row.min.Milliseconds()-2000 || ms > row.max.Milliseconds()+1002 {
				t.Errorf("%s: %s expires in %dms, want %v to %v", row.why, key, ms, row.min, row.max)
			}
		}
	}
}

func TestOtherLimitsOfAPairAreKept(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	small, large := core.MustParseLimits("5/m, 5/s;fixed-window"), core.MustParseLimits("50/h, 50/d;sliding-window")
	take(t, s, claimOf("k", small...))
	take(t, s, claimOf("k", large...))
	if r := take(t, s, claimOf("k", small...))[0]; r.Remaining != 3 {
		t.Errorf("%d remaining of 5/m, want 3", r.Remaining)
	}
	s.Shift(2 * time.Minute)
	if r := take(t, s, claimOf("k", large...))[0]; r.Remaining != 49 {
		t.Errorf("%d remaining of 50/h, want 49", r.Remaining)
	}
	for i, l := range append(small, large...) {
		if n := client.HLen(context.Background(), pairKey).Val(); n != 4 {
			t.Errorf("%d fields are kept of 4", n)
		}
		if !client.HExists(context.Background(), pairKey, fieldOf(l)).Val() {
			t.Errorf("limit %d is not kept", i)
		}
	}
}

func TestFieldsThatEndedAreDropped(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for i := range 100 {
		take(t, s, claimOf("k", core.Every(1, time.Duration(i+1)*time.Second), core.PerDay(1000)))
		s.Shift(3 * time.Second)
	}
	if n := client.HLen(context.Background(), pairKey).Val(); n < 17 || n > 100 {
		t.Errorf("%d fields are kept, want those that have not ended", n)
	}
	s.Shift(24 * time.Hour)
	take(t, s, claimOf("k", core.PerHour(1)))
	if n := client.HLen(context.Background(), pairKey).Val(); n > 2 {
		t.Errorf("%d fields are kept, want those of the last request and of 1000/d", n)
	}
}
