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
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// opening matches the commands that a client sends when it connects, and the store when it looks up the eviction policy.
var opening = regexp.MustCompile(`"(hello|client|info|function)"`)

func TestRequestIsOneCall(t *testing.T) {
	s, client := started(t)
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
			expect.True(t, strings.Contains(line, `"fcall"`) && strings.Contains(line, "ip:1") && strings.Contains(line, "user:2"),
				"sent %s", line)
		}
	}
	expect.Equal(t, sent, 10, "commands for 10 requests")
	expect.Equal(t, calls(t, client, "fcall"), 12, "how often FCALL ran for 11 requests, and once to find that there was no library")
}

func TestPairIsReadAndWrittenOnce(t *testing.T) {
	s, client := started(t)
	c := claimOf("k", core.MustParseLimits("5/m, 9/h, 99/d;fixed-window, 50/h;sliding-window")...)
	for range 10 {
		take(t, s, c)
	}
	for command, want := range map[string]int{"time": 10, "hget": 10, "hset": 5, "pexpire": 1} {
		expect.Equal(t, calls(t, client, command), want, "%s: calls for 5 admitted and 5 denied requests", command)
	}
}

// watch returns the commands that the server at addr runs from now on.
func watch(t *testing.T, addr string) <-chan string {
	t.Helper()
	conn := must.Get(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { conn.Close() })
	lines := make(chan string, 1000)
	fmt.Fprint(conn, "MONITOR\r\n")
	r := bufio.NewReader(conn)
	ok, err := r.ReadString('\n')
	must.True(t, err == nil && strings.HasPrefix(ok, "+OK"), "MONITOR: %q, %v", ok, err)
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

func TestDenialChangesNothing(t *testing.T) {
	s, client := started(t)
	ctx := context.Background()
	for _, l := range everyAlgorithm(3, ages) {
		take(t, s, core.Claim{Rule: "rule", Key: "denied", Limits: []core.Limit{l}, Cost: 3})
	}
	take(t, s, claimOf("other", everyAlgorithm(9, ages)...))
	before := client.Do(ctx, "debug", "digest").Val()
	for _, l := range everyAlgorithm(3, ages) {
		expect.True(t, !allowed(take(t, s, claimOf("other", everyAlgorithm(9, ages)...), claimOf("denied", l), claimOf("new", l))),
			"%v was not denied", l)
		peek := claimOf("other", everyAlgorithm(9, ages)...)
		peek.Peek = true
		take(t, s, peek)
	}
	after := client.Do(ctx, "debug", "digest").Val()
	expect.True(t, after == before, "digest %v before and %v after", before, after)
}

func TestEndedTiersAreDropped(t *testing.T) {
	s, client := started(t)
	kept := func() int { return len(parseWords(client.HGet(context.Background(), pairKey, "s").Val())) }
	for i := range 100 {
		take(t, s, claimOf("k", core.Every(1, time.Duration(i+1)*time.Second), core.PerDay(1000)))
		s.Shift(3 * time.Second)
	}
	n := kept()
	expect.True(t, n >= 1+6*17 && n <= 1+6*100, "%d words are kept, want only the words of limits that have not ended", n)
	s.Shift(24 * time.Hour)
	take(t, s, claimOf("k", core.PerHour(1)))
	expect.AtMost(t, kept(), 1+6*2, "words kept (the words of the last request and of 1000/d)")
}

// A pair with limits of very many periods forgets the limit that ends first, not the one that it got first.
func TestManyTiersDropTheLimitThatEndsFirst(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	s.SetClock(func() time.Time { return time.Unix(1_800_000_000, 0) }) // no window ends within two days
	used := append(everyAlgorithm(1, ages), core.PerYear(1).In("Pacific/Kiritimati"))
	for _, l := range used {
		take(t, s, claimOf("k", l))
	}
	for i := range 400 { // each ends before all others
		r := take(t, s, claimOf("k", core.Every(1, 48*time.Hour-time.Duration(i)*time.Second)))
		must.True(t, allowed(r), "tier %d: %+v", i, r)
	}
	for _, l := range append(used, core.Every(1, 48*time.Hour)) {
		r := take(t, s, claimOf("k", l))[0]
		expect.True(t, !r.Allowed, "%v, which was used up, is forgotten: %+v", l, r)
	}
	expect.Equal(t, s.Repaired(), 0, "repaired states")
}

// fill charges a sliding log n times, at n instants.
func fill(t *testing.T, s *redisx.Store, c core.Claim, n int) (charged []core.Settlement) {
	t.Helper()
	for range n {
		r, err := s.Take(context.Background(), []core.Claim{c}, nil)
		must.True(t, err == nil && r[0].Allowed, "%+v, %v", r, err)
		charged = append(charged, settled([]core.Claim{c}, r)...)
		s.Shift(time.Microsecond)
	}
	return charged
}

// A refund of the oldest entry runs no more commands than one of the newest, however many are between them.
func TestRefundCostsTheSameInALongLog(t *testing.T) {
	s, client := started(t)
	ctx := context.Background()
	c := claimOf("k", core.PerHour(1000).Using(core.SlidingLog))
	charged := fill(t, s, c, 1000)
	for _, i := range []int{0, 1, 70, 500, 980, 999} {
		before := commands(t, client)
		must.Do(t, s.Settle(ctx, charged[i:i+1]))
		expect.AtMost(t, commands(t, client)-before, 12, "a refund of entry %d took commands", i)
	}
	c.Peek = true
	expect.Equal(t, take(t, s, c)[0].Remaining, 6, "remaining after 6 refunds")
}

// commands returns how many commands a server has run, including commands in scripts.
func commands(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	for line := range strings.Lines(c.Info(context.Background(), "commandstats").Val()) {
		var calls int
		if name, stats, ok := strings.Cut(line, ":"); ok && !strings.HasSuffix(name, "_info") {
			_, _ = fmt.Sscanf(stats, "calls=%d,", &calls)
			n += calls
		}
	}
	return n
}

// A decision takes few commands, however many requests a log counts, and drops those that count no longer.
func TestDecisionOfALogTakesFewCommands(t *testing.T) {
	s, client := started(t)
	c := claimOf("k", core.PerHour(1000).Using(core.SlidingLog))
	for range 1000 {
		take(t, s, c)
		s.Shift(2 * time.Second)
	}
	r := take(t, s, c)[0]
	must.True(t, !r.Allowed, "%+v, want a denial", r)
	s.Shift(45 * time.Minute) // 16 minutes of the first 33 count no longer
	before := commands(t, client)
	r = take(t, s, c)[0]
	expect.True(t, r.Remaining >= 500 && r.Remaining <= 560, "%d remain, want half and a little", r.Remaining)
	expect.AtMost(t, commands(t, client)-before, 11, "a decision took commands")
	expect.AtMost(t, client.ZCard(t.Context(), pairKey+":3600000000").Val(), 500, "members kept (half of 1000)")
}

// A sorted set that becomes empty loses its expiry, after a refund or once nothing in it counts.
func TestLogAlwaysExpires(t *testing.T) {
	s, client := started(t)
	c := claimOf("k", core.PerSecond(5).Using(core.SlidingLog))
	must.Do(t, s.Settle(t.Context(), fill(t, s, c, 1)))
	take(t, s, c)
	allExpire(t, client)
	s.Shift(2 * time.Second)
	before := commands(t, client)
	take(t, s, c)
	expect.AtMost(t, commands(t, client)-before, 7, "a decision took commands")
	allExpire(t, client)
}
