package redisx_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redisx"
)

// long matches the header of a reply of more than 999 values or bytes.
var long = regexp.MustCompile(`[^:+-][+-]?\d{4}`)

// FuzzReply checks that whatever a server answers to a script is an error that decides nothing, or a result per limit.
func FuzzReply(f *testing.F) {
	const now, minute, code = 1_800_000_000_000_000, 60_000_000, -1 << 53
	for _, words := range [][]int64{
		{now, 0, 0, minute, 0, 0, 60 * minute, 0}, {now, 1, -1, minute, 0, 5, now, 0}, {now, 0, minute, -10 * minute}, {now, 0, code}, {now, 0, 2 * code},
		{now, 0, 3 * code, 0, minute, 0, 0, 60 * minute, 0, 1, minute, 10, 1, -now, 10}, {now, 0, 4 * code, 0, 0, 0, 1, 0, 0, 1, -minute, 10, 1, 0, 10},
		{now, 0, 0, minute, 0, 0, minute, 0}, {now, 0, 0, minute, 1, 0, minute, now}, {now, 0, 5 * code, 0, 0, 0, 1, 0, 0}, {now, 0, 3 * code, 0},
		{now, 0, 3 * code, 0, minute, 0, 0, minute, 0, 0, 0, 0, 0, 0, -1}, {1, 0, 9007199254740993, 0}, {1, 0, math.MinInt64, 0}, {now, 0}, {now}, {},
		{now, 0, 0, 1 << 53, 0, 0, 1 << 53, 0}, {now, 0, now, 24 * minute, 10, 2 * minute, now, 7, 0, 60 * 24 * minute, 10, minute, now, 7, 0},
		{now, 0, now, 24 * minute, 10, 2 * minute, now, 7, 0, 24*minute + 4, 3, now - now%minute, now - now%minute + minute},
	} {
		var text []byte
		for _, w := range words {
			text = binary.LittleEndian.AppendUint64(text, uint64(w))
		}
		f.Add(fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text))
	}
	for _, reply := range []string{
		"*3\r\n:1800000000000000\r\n:0\r\n:-2\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n", ":1\r\n", "*10\r\n:1\r\n", "$10\r\n0123456789\r\n", "$9\r\nx\r\n",
		"-ERR user_script: value is not an integer\r\n", "-NOSCRIPT No matching script.\r\n", "-CROSSSLOT Keys\r\n", "-TRYAGAIN Multiple keys\r\n",
		"-MOVED 1 127.0.0.1:1\r\n", "-LOADING\r\n", "+OK\r\n", "", "\r\n", "*-2\r\n", "*3\r\n:99999999999999999999\r\n",
	} {
		f.Add([]byte(reply))
	}
	plain := []core.Claim{claimOf("k", core.PerMinute(10), core.PerHour(10))}
	mixed := []core.Claim{claimOf("k", core.PerMinute(10), core.PerMinute(10).Using(core.FixedWindow))}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if long.Match(reply) {
			t.Skip("go-redis makes room for as much as a server announces")
		}
		checkReply(t, reply, plain)
		checkReply(t, reply, mixed)
	})
}

// checkReply fails the test if the reply to claims leads to an impossible result.
func checkReply(t *testing.T, reply []byte, claims []core.Claim) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	results, err := fakeStore(t, reply).Take(ctx, claims, make([]core.Result, 1))
	if err != nil {
		must.True(t, len(results) == 1, "%d results beside error %v", len(results)-1, err)
	} else if len(results) != 1+len(claims[0].Limits) {
		t.Fatalf("%d results", len(results)-1)
	}
	for i, r := range results[1:] {
		expect.True(t, r.Limit == claims[0].Limits[i] && r.Rule == "rule" && r.Allowed == (r.RetryAfter == 0) && r.Remaining >= 0 &&
			r.Remaining <= r.Quota() && r.RetryAfter >= 0 && r.RefillAfter >= 0 && r.ResetAfter >= 0,
			"result %d: %+v", i, r)
	}
	settleErr := fakeStore(t, reply).Settle(ctx, settledAt(time.Now(), claims...))
	expect.True(t, settleErr != nil || err != nil, "one reply decides a take, and settles it")
}

// fakeStore returns a store of a server that has one reply to every script.
func fakeStore(t *testing.T, reply []byte) *redisx.Store {
	client := redis.NewClient(&redis.Options{
		Dialer: dialFake(reply), Protocol: 2, MaxRetries: -1, PoolSize: 1,
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, // the server hangs up before
	})
	t.Cleanup(func() { client.Close() })
	return redisx.New(client, options)
}

// dialFake connects to a server that answers every script in the same way, then hangs up, and knows no other command.
func dialFake(reply []byte) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			for r := bufio.NewReader(server); ; {
				command, err := readCommand(r)
				switch {
				case err != nil:
					return
				case command == "fcall":
					_, _ = server.Write(reply)
					return
				}
				_, _ = server.Write([]byte("-ERR unknown command\r\n"))
			}
		}()
		return client, nil
	}
}

// readCommand reads an array of strings and returns the first.
func readCommand(r *bufio.Reader) (name string, err error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return "", err
	}
	for i := range n {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return "", err
		}
		word := make([]byte, size+2)
		for j := range word {
			if word[j], err = r.ReadByte(); err != nil {
				return "", err
			}
		}
		if i == 0 {
			name = string(word[:size])
		}
	}
	return name, nil
}

// FuzzStored checks that any value that other software has stored leads to possible results, waits that end and keys that expire.
func FuzzStored(f *testing.F) {
	const minute = 60_000_000 * 24 // the kind of a bucket
	micros := uint64(start.UnixMicro())
	for _, value := range []string{
		"", "garbage", words(ends), state(ends, minute, 10), state(ends, minute, 10, 1<<53, 1<<53, 1<<53, 1), state(ends, minute, 9, micros, micros, 9, 39),
		state(ends, minute+4, 3, micros-micros%60_000_000, micros), state(ends, minute+8, 6_000_000, micros-micros%6_000_000, 1<<52, 1), state(ends, minute+12, micros),
		words(ends, minute+1, 10, 9, micros-7, 5, 0, 4, micros+5, 0, 0, 0), words(ends, 3, micros+9, 1<<52+5, minute+4, 0, 5, micros+10, micros, 0, 0),
		words(ends, 1, minute, 10, 10, 1, 0, 0, 0, 2, micros-micros%6_000_000+60_000_000, 5, 1, 1, 1), words(ends, 2, micros-5, 3, 2, 0),
	} {
		f.Add(value, "1:0", int64(micros-5))
		f.Add(value, "garbage", int64(micros))
	}
	server := must.Get(miniredis.Run())(f)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	f.Cleanup(func() {
		client.Close()
		server.Close()
	})
	f.Fuzz(func(t *testing.T, value, member string, score int64) {
		server.FlushAll()
		now := start
		server.SetTime(now)
		s := redisx.New(client, options)
		c := claimOf("k", everyAlgorithm(10, time.Minute)...)
		server.HSet(pairKey, "s", value)
		must.Get(server.ZAdd(pairKey+":60000000", float64(score), member))(t)
		results := take(t, s, c)
		for waits := 0; !allowed(results); waits++ { // a log may be found corrupt only when its entries expire
			must.True(t, waits != 2, "after two waits: %+v", results)
			now = now.Add(checkResults(t, results))
			server.SetTime(now)
			results = take(t, s, c)
		}
		checkResults(t, results)
		for _, key := range server.Keys() {
			expect.True(t, server.TTL(key) > 0, "%s has no expiry", key)
		}
	})
}

// checkResults fails the test if results of cost 1 are impossible, and returns the longest wait.
func checkResults(t *testing.T, results []core.Result) (wait time.Duration) {
	for _, r := range results {
		full := r.Remaining == r.Quota()
		if r.Remaining < 0 || r.Remaining > r.Quota() || r.Allowed != (r.RetryAfter == 0) || r.RetryAfter < 0 ||
			full != (r.ResetAfter == 0) || full != (r.RefillAfter == 0) || r.RefillAfter > r.ResetAfter || r.RefillAfter < 0 ||
			!r.Allowed && (r.Remaining > 0 || r.RefillAfter < r.RetryAfter) { // a ban may end before what is held does
			t.Errorf("%+v", r)
		}
		wait = max(wait, r.RetryAfter)
	}
	return wait
}
