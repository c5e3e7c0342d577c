package redisx

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/testpass"
)

func TestImpossibleRepliesAreErrors(t *testing.T) {
	const now, tooMuch, code, zero = 1_800_000_000_000_000, algorithm.MaxExact + 1, -algorithm.MaxExact, grantZero
	s := frozenStore(t)
	start := []int64{now, 0}
	first := func(words ...int64) []int64 { return slices.Concat(start, words) }
	pair := func(level, at int64) []int64 { return []int64{now, 0, 5, level, at, 0, 0} } // its first word, and a bucket
	window := func(used, ends int64) []int64 { return []int64{0, used, 0, ends} }
	fresh, unused := pair(1, now), window(1, now)
	five := func(r ...int64) []int64 { return first(append([]int64{code * rare}, r...)...) }
	bothStored := slices.Concat(fresh, unused)
	for _, row := range []struct {
		why   string
		reply []int64 // to a claim of a bucket, and then to one of a bucket and a window
		good  bool
	}{
		{"both are admitted", slices.Concat(start, fresh, bothStored), true},
		{"a request in flight is in the way", slices.Concat(start, []int64{code * held, 1_000_000, 0, 9, 9, zero}, bothStored), true},
		{"both are rare", five(0, 0, 0, 1, zero, code*held, 0, 0, 0, 0, zero, 7, 5, 0, 7, zero+3), true},
		{"a cost never fits", slices.Concat(start, fresh, []int64{code * rare, -1, 0, 0, 0, zero, 0, 0, 0, 9, zero}), true},
		{"more is used than there is", slices.Concat(start, fresh, fresh, window(11, now+1)), true},
		{"requests were taken away", slices.Concat(five(0, 0, 0, 1, zero-3), bothStored), true},
		{"less than nothing is used", slices.Concat(start, fresh, fresh, window(-3, now)), false},
		{"a wait below never", slices.Concat(five(-2, 0, 0, 0, zero), bothStored), false},
		{"no such wait", slices.Concat(five(tooMuch, 0, 0, 0, zero), bothStored), false},
		{"no such level", slices.Concat(start, pair(tooMuch, now), bothStored), false},
		{"a level below none", slices.Concat(start, pair(-1, now), bothStored), false},
		{"a level of a tick ago", slices.Concat(start, pair(1, now-1), bothStored), false},
		{"a level of long ago", slices.Concat(start, pair(1, math.MinInt64), bothStored), false},
		{"a level of later", slices.Concat(start, pair(1, now+1), bothStored), false},
		{"no such number used", slices.Concat(start, fresh, fresh, window(math.MinInt64, now)), false},
		{"a window that has ended", slices.Concat(start, fresh, fresh, window(1, now-1)), false},
		{"no such end", slices.Concat(start, fresh, fresh, window(1, math.MinInt64)), false},
		{"no such reset", slices.Concat(five(0, 0, 0, tooMuch, zero), bothStored), false},
		{"no so many remain", slices.Concat(five(0, tooMuch, 0, 1, zero), bothStored), false},
		{"no such grant", slices.Concat(five(0, 0, 0, 1, tooMuch+zero), bothStored), false},
		{"no such code", slices.Concat(start, []int64{code * (full + 1), 1, 0, 9, 9, zero}, bothStored), false},
		{"one failed", slices.Concat(start, []int64{code * failed}, bothStored), false},
		{"a clock is far off", slices.Concat(start, []int64{code * farOff}, bothStored), false},
		{"a log is full", slices.Concat(start, []int64{code * full}, bothStored), false},
		{"too much", slices.Concat(start, fresh, bothStored, []int64{0}), false},
		{"too little", slices.Concat(start, fresh, bothStored[1:]), false},
		{"nothing of the second", slices.Concat(start, fresh), false},
		{"rare, without what is granted", slices.Concat(start, fresh, []int64{code * rare, 0, 5, 0, 0, 0, 9, 0, 0}), false},
		{"nothing of either", start, false},
		{"no number of repairs", []int64{now}, false},
		{"nothing", nil, false},
	} {
		one := s.jobOf(t, core.Claim{Key: "a", Limits: core.MustParseLimits("5/m")})
		two := s.jobOf(t, core.Claim{Key: "b", Limits: core.MustParseLimits("5/m, 9/h;fixed-window")})
		err := s.decider.server.deliver(textOf(row.reply), []*job{one, two})
		if err == nil {
			err = errors.Join(one.read(), two.read())
		}
		expect.True(t, (err == nil) == row.good, "%s: %d: %v, want it to be good: %v", row.why, row.reply, err, row.good)
	}
}

func TestImpossibleRingsAreErrors(t *testing.T) {
	const now, width = 1_800_000_000_000_000, 6_000_000
	s := frozenStore(t)
	for _, row := range []struct {
		sum, newest, oldest int64
		good                bool
	}{
		{3, now + width, now, true},
		{-1, now + width, now, false},
		{algorithm.MaxExact + 1, now + width, now, false},
		{3, now, now + width, false},
		{3, now + width, width, false}, // it would have thousands of counters
		{3, math.MaxInt64, now, false},
		{3, now + width, math.MinInt64, false},
		{9, now + width, now, true}, // a sum that no counters add up to
	} {
		j := s.jobOf(t, core.Claim{Key: "a", Limits: core.MustParseLimits("5/m;sliding-window")})
		reply := append([]int64{now, 0, now, 0, width, row.sum, row.newest, row.oldest}, make([]int64, 11)...)
		err := s.decider.server.deliver(textOf(reply), []*job{j})
		if err == nil {
			err = j.read()
		}
		expect.True(t, (err == nil) == row.good, "%d: %v, want it to be good: %v", reply, err, row.good)
	}
}

func TestImpossibleRepliesToLeasesAreErrors(t *testing.T) {
	const code = -algorithm.MaxExact
	s := frozenStore(t)
	for _, row := range []struct {
		reply []int64
		good  bool
	}{
		{[]int64{1, 0, code * rare, -1 - 9, 1, 0, 5, grantZero}, true},
		{[]int64{1, 0, code * rare, 0, 1, 0, 5, grantZero}, true},
		{[]int64{1, 0, code * rare, 5, 0, 0, 5, grantZero}, true}, // denied
		{[]int64{1, 0, code * held, 5, 1, 0, 5, grantZero}, true},
		{[]int64{1, 0, code * rare, -1 - 10, 1, 0, 5, grantZero}, false}, // more than was wanted
		{[]int64{1, 0, 1, 0, 5, 1, 1, 0, 0}, false},                      // the bucket as it is stored
		{[]int64{1, 0, code * rare, -1 - 9}, false},
		{[]int64{1, 0}, false},
		{[]int64{1, 0, code * rare, -1 - 9, 1, 0, 5, grantZero, 9}, false},
		{[]int64{1, 0, code * failed}, false},
	} {
		j := s.jobOf(t, core.Claim{Key: "a", Limits: core.MustParseLimits("5/m")})
		j.ops[0].does, j.ops[0].final = lend, 9
		err := s.decider.server.deliver(textOf(row.reply), []*job{j})
		if err == nil {
			err = j.read()
		}
		expect.True(t, (err == nil) == row.good, "%d: %v, want it to be good: %v", row.reply, err, row.good)
	}
}

func TestRepliesThatAreNotWordsAreErrors(t *testing.T) {
	s := frozenStore(t)
	for text, good := range map[string]bool{textOf([]int64{1, 0}): true, "": false, "1": false, textOf([]int64{1, 0}) + "\x00": false} {
		err := s.decider.server.deliver(text, nil)
		expect.True(t, (err == nil) == good, "%q: %v, want it to be good: %v", text, err, good)
	}
}

func TestReloadsAreBounded(t *testing.T) {
	const every = 500 * time.Millisecond
	var r pacer
	for _, step := range []struct {
		at  time.Duration
		due bool
	}{{0, true}, {0, false}, {every - 1, false}, {every, true}, {2*every - 1, false}, {time.Hour, true}, {time.Hour + every, true}} {
		expect.Equal(t, r.due(step.at, reloadEvery), step.due, "at %v", step.at)
	}
}

// The wall clock may be set: what is between two instants is monotonic.
func TestBeginningHasAMonotonicReading(t *testing.T) {
	expect.Contains(t, New(nil, Options{}).decider.server.begun.String(), " m=", "the store knows only the wall time of its beginning")
}

// Without the store's help, go-redis looks for new masters only after ten seconds.
func TestErrorMakesTheClientLookForNewMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		client := redis.NewClusterClient(&redis.ClusterOptions{
			MaxRedirects: -1,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				loads.Add(1)
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
			},
		})
		defer client.Close()
		s := New(client, Options{Prefix: "p"})
		_, err := s.Take(t.Context(), []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}, nil)
		expect.Fails(t, err, "a server that is not there decided")
		time.Sleep(5 * time.Second)
		expect.Equal(t, loads.Load(), 2, "how often the nodes were looked up (once for the request and once for its error)")
	})
}

// A rejecter is a hook that answers some commands with an error, and wraps all errors.
type rejecter struct {
	redistest.Hook
	mu   sync.Mutex // of errs: connections come up in the background
	errs map[string]error
	sent map[string]*atomic.Int64
}

func (r *rejecter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if n := r.sent[cmd.Name()]; n != nil {
			n.Add(1)
		}
		r.mu.Lock()
		err := r.errs[cmd.Name()]
		r.mu.Unlock()
		if err == nil {
			err = next(ctx, cmd)
		}
		if err != nil {
			err = fmt.Errorf("hook: %s: %w", cmd.Name(), err)
			cmd.SetErr(err)
		}
		return err
	}
}

// rejectingStore returns a store whose server rejects some commands.
func rejectingStore(t *testing.T, server *redistest.Server, errs map[string]error) (*Store, *rejecter) {
	client := redistest.NewClient(t, &redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	r := &rejecter{errs: errs, sent: map[string]*atomic.Int64{"fcall": {}, "function": {}, "evalsha": {}, "eval": {}}}
	client.AddHook(r)
	return New(client, Options{Prefix: t.Name()}), r
}

// Servers and proxies reject functions with many different texts.
func TestRejectedFunctionsMeanScripts(t *testing.T) {
	server := redistest.Start(t)
	for _, row := range []struct{ fcall, function string }{
		{"ERR unknown command `fcall`, with args beginning with: `x`", ""},
		{"ERR unknown command 'FCALL'", ""},
		{"ERR Command is not available: 'FCALL'. See https://upstash.com/docs for details", ""},
		{"ERR command fcall not support for your account", ""},
		{"ERR 'FCALL' command is not allowed", ""},
		{"NOPERM this user has no permissions to run the 'fcall' command", ""},
		{"unsupported command", ""},
		{"ERR Function not found", "ERR unknown subcommand 'LOAD'. Try FUNCTION HELP."},
		{"ERR Function not found", "ERR Command is not available: 'FUNCTION'."},
		{"ERR Function not found", "NOPERM this user has no permissions to run the 'function|load' command"},
	} {
		log := expect.KeepLog(t)
		errs := map[string]error{"fcall": errorReply(row.fcall)}
		if row.function != "" {
			errs["function"] = errorReply(row.function)
		}
		s, r := rejectingStore(t, server, errs)
		expect.Equal(t, s.Via(), "functions", "%q: a new store uses", row)
		claims := []core.Claim{{Key: fmt.Sprint(row), Limits: core.MustParseLimits("2/d")}}
		for i := range 4 {
			results := must.Get(s.Take(t.Context(), claims, nil))(t)
			expect.Equal(t, results[0].Allowed, i < 2, "%q: decision %d is %+v", row, i, results)
		}
		expect.True(t, s.Via() == "scripts" && r.sent["fcall"].Load() == 1,
			"%q: the store uses %s after %d attempts", row, s.Via(), r.sent["fcall"].Load())
		expect.Equal(t, strings.Count(log.String(), "so the store uses scripts"), 1, "%q: how often logged:\n%s", row, log)
		expect.True(t, !strings.Contains(log.String(), "args"), "%q: the log has words of the command:\n%s", row, log)
	}
}

// An error that does not concern functions is the error of the decision.
func TestFaultsDoNotMeanScripts(t *testing.T) {
	server := redistest.Start(t)
	for _, fault := range []error{
		errorReply("LOADING Redis is loading the dataset in memory"), errorReply("READONLY You can't write against a read only replica."),
		errorReply("OOM command not allowed when used memory > 'maxmemory'."), errorReply("NOAUTH Authentication required."),
		errorReply("MASTERDOWN Link with MASTER is down"), errorReply("BUSY Redis is busy"), errorReply("CLUSTERDOWN Hash slot not served"),
		errorReply("ERR no. script: x, on @user_function:7."), errorReply("ERR max number of clients reached"), context.DeadlineExceeded, errors.New("connection reset"),
	} {
		s, r := rejectingStore(t, server, map[string]error{"fcall": fault})
		_, err := s.Take(t.Context(), []core.Claim{{Key: fault.Error(), Limits: core.MustParseLimits("2/d")}}, nil)
		expect.True(t, errors.Is(err, fault), "%v: got %v", fault, err)
		n := r.sent["evalsha"].Load() + r.sent["eval"].Load() + r.sent["function"].Load()
		expect.True(t, n <= 0 && s.Via() == "functions", "%v: %d more commands, and the store uses %s", fault, n, s.Via())
	}
}

// Some proxies end the connection at a command that they do not know. No decision is lost by that.
func TestProxyThatEndsTheConnectionGetsScripts(t *testing.T) {
	s, r := rejectingStore(t, redistest.Start(t), map[string]error{"fcall": io.EOF})
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("2/d")}}
	for i := range 2 {
		if results, err := s.Take(t.Context(), claims, nil); err != nil || results[0].Remaining != 1-i || s.Via() != "scripts" {
			t.Errorf("decision %d: %+v, %v by %s, want a decision of the script", i, results, err, s.Via())
		}
	}
	r.mu.Lock()
	r.errs["fcall"] = errors.New("connection reset") // the answer a minute later says nothing either
	r.mu.Unlock()
	s.decider.server.functions.retry.next.Store(1)
	if results, err := s.Take(t.Context(), claims, nil); err != nil || results[0].Allowed || s.Via() != "scripts" {
		t.Errorf("a minute later: %+v, %v by %s, want a decision of the script", results, err, s.Via())
	}
	r.mu.Lock()
	r.errs["fcall"] = context.DeadlineExceeded // then the server has failed: a script would be late too, as if this process were overloaded
	r.mu.Unlock()
	s.decider.server.functions.retry.next.Store(1)
	_, err := s.Take(t.Context(), claims, nil)
	expect.True(t, errors.Is(err, context.DeadlineExceeded), "no answer a minute later: %v", err)
	s, _ = rejectingStore(t, redistest.Start(t), map[string]error{"fcall": io.EOF, "time": io.EOF}) // a server that is going down
	_, err = s.Take(t.Context(), claims, nil)
	expect.True(t, errors.Is(err, io.EOF) && s.Via() == "functions", "%v by %s", err, s.Via())
	s, r = rejectingStore(t, redistest.Start(t), map[string]error{})
	must.Get(s.Take(t.Context(), claims, nil))(t)
	r.mu.Lock()
	r.errs["fcall"] = io.EOF // a server that has run functions does know them
	r.mu.Unlock()
	_, err = s.Take(t.Context(), claims, nil)
	expect.True(t, errors.Is(err, io.EOF) && s.Via() == "functions", "%v by %s", err, s.Via())
}

func TestFunctionsAreTriedAgain(t *testing.T) {
	log := expect.KeepLog(t)
	server := redistest.Start(t)
	admin := server.Client(t)
	s, r := rejectingStore(t, server, nil)
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("100/d")}}
	right := func(right string) {
		t.Helper()
		must.Do(t, admin.Do(t.Context(), "acl", "setuser", "default", right).Err())
	}
	passes := func() {
		server := s.decider.server
		expect.AtMost(t, time.Duration(server.functions.retry.next.Swap(1))-server.age(), time.Minute, "until functions are tried again")
	}
	decided := 0
	take := func(want string, attempts int64) {
		t.Helper()
		before := r.sent["fcall"].Load()
		for range 3 {
			decided++
			results, err := s.Take(t.Context(), claims, nil)
			expect.True(t, err == nil && results[0].Remaining == 100-decided, "%+v, %v, want %d remaining", results, err, 100-decided)
		}
		if n := r.sent["fcall"].Load() - before; n != attempts || s.Via() != want {
			t.Errorf("%d attempts to use functions, and the store uses %s; want %d and %s", n, s.Via(), attempts, want)
		}
	}
	take("functions", 4) // and one to find out that the library is missing
	right("-fcall")
	take("scripts", 1)
	passes()
	take("scripts", 1)
	right("+fcall")
	take("scripts", 0)
	passes()
	take("functions", 4) // and one to ask
	if text := log.String(); strings.Count(text, "so the store uses scripts") != 1 || strings.Count(text, "runs functions again") != 1 {
		t.Errorf("want one line each way:\n%s", text)
	}
}

// evalNumber returns the number that a Lua expression with functions of number.lua stands for.
func evalNumber(t *testing.T, client *redis.Client, expression string) int64 {
	t.Helper()
	text, err := client.Eval(context.Background(), read("number")+"\nreturn string.format('%d', "+expression+")", nil).Text()
	n, notNumber := strconv.ParseInt(text, 10, 64)
	must.True(t, err == nil && notNumber == nil, "%s: %q, %v", expression, text, err)
	return n
}

// quotient returns a·b/c, rounded up or down.
func quotient(a, b, c int64, up bool) int64 {
	n := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	if up {
		n.Add(n, big.NewInt(c-1))
	}
	n.Div(n, big.NewInt(c))
	if !n.IsInt64() || n.Int64() > algorithm.MaxExact {
		return algorithm.MaxExact
	}
	return n.Int64()
}

func TestLuaArithmeticIsExact(t *testing.T) {
	testpass.Thorough(t)
	mini := redistest.NewClient(t, &redis.Options{Addr: miniredis.RunT(t).Addr()})
	for _, client := range []*redis.Client{mini, redistest.Start(t).Client(t)} {
		for _, n := range [][3]int64{
			{0, 1, 1}, {1, 1, 2}, {3, 1, 3}, {4, 1, 3}, {algorithm.MaxExact, 1, 1}, {algorithm.MaxExact, 1, 2}, {algorithm.MaxExact, 1, 3}, {algorithm.MaxExact - 1, 1, 1_000_000_000},
			{algorithm.MaxExact - 1, 1, algorithm.MaxExact}, {algorithm.MaxExact, 1, algorithm.MaxExact}, {algorithm.MaxExact - 1, 1, algorithm.MaxExact - 2}, {algorithm.MaxExact, 1000, 1}, {algorithm.MaxExact, 999, 1000},
			{algorithm.MaxExact, 1, 1000}, {6004799503160661, 3, 2}, {6004799503160662, 3, 2}, {1, 315_360_000_000_000, 315_360_000}, {algorithm.MaxExact, 315_360_000, 315_360_000_000_000},
			{algorithm.MaxExact - 1, 315_360_000_000_000, 315_360_000_000_001}, {1 << 52, 1, 1}, {1<<52 + 1, 1, 2}, {1 << 52, 7, 3},
		} {
			checkArithmetic(t, client, n[0], n[1], n[2])
		}
		for range 300 {
			checkArithmetic(t, client, rand.Int64N(algorithm.MaxExact)>>rand.IntN(50), 1+rand.Int64N(1<<49)>>rand.IntN(45), 1+rand.Int64N(1<<49)>>rand.IntN(45))
		}
	}
}

func checkArithmetic(t *testing.T, client *redis.Client, x, y, z int64) {
	t.Helper()
	if y < 1<<50 && z < 1<<50 {
		expect.Equal(t, evalNumber(t, client, fmt.Sprintf("mulDivUp(%d, %d, %d)", x, y, z)), quotient(x, y, z, true), "%d·%d/%d", x, y, z)
	}
	expect.Equal(t, evalNumber(t, client, fmt.Sprintf("ceilDiv(%d, %d)", x, z)), quotient(x, 1, z, true), "%d/%d rounded up", x, z)
	expect.Equal(t, evalNumber(t, client, fmt.Sprintf("floorDiv(%d, %d)", x, z)), quotient(x, 1, z, false), "%d/%d rounded down", x, z)
}

// The scripts pack words themselves on servers without the library struct.
func TestWordsAreTheSameWithoutStruct(t *testing.T) {
	client := redistest.Start(t).Client(t)
	source := read("number", "word") + `
		local own, form, numbers = wordsWithoutStruct, formats[5], {0, 1, 255, 1800000000000000, maxExact}
		local text = own.pack(form, unpack(numbers))
		local back = {own.unpack(form, 'x' .. text, 2)}
		for i, n in ipairs(numbers) do
			if back[i] ~= n then
				return 'word ' .. i .. ' reads ' .. format('%d', back[i])
			end
		end
		return text == struct.pack('<I8I8I8I8I8', unpack(numbers)) and 'alike' or 'not alike'`
	expect.Equal(t, must.Get(client.Eval(context.Background(), source, nil).Text())(t), "alike", "result")
}

// decode returns the rule and the identity of key, or false if they were hashed.
func decode(l *layout, key string) (rule, identity string, ok bool) {
	identity, rule, _ = strings.Cut(strings.TrimPrefix(key, l.start), "}:")
	if identity != "" && (identity[0] == '#' || identity[0] == '*') {
		return "", "", false
	}
	if identity == "%" {
		identity = ""
	}
	return unescape(rule), unescape(identity), true
}

func unescape(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			c, _ := hex.DecodeString(s[i+1 : i+3])
			b, i = append(b, c[0]), i+2
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

// clusterTag returns the part of key that Redis hashes to a slot.
func clusterTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, ok := strings.Cut(rest, "}")
	if !ok || tag == "" {
		return key
	}
	return tag
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "}", "{", "{}", "ip:1.2.3.4", "ip:2001:db8::/64", "%", "%7D", "#", "*x", ":log", "\x00\r\n", "ä", strings.Repeat("x", 129)} {
		f.Add("rule", s)
		f.Add(s, "ip:1")
	}
	f.Fuzz(func(t *testing.T, rule, identity string) {
		l := newLayout("spillgate", nil)
		key := l.key(rule, identity)
		for i := range len(key) {
			must.True(t, key[i] > ' ' && key[i] <= '~', "%q is not plain", key)
		}
		expect.True(t, clusterTag(key) == clusterTag(l.key("other", identity)) && clusterTag(key) == l.tagOf(key),
			"the keys of %q are in different slots", identity)
		gotRule, gotIdentity, ok := decode(l, key)
		must.Equal(t, ok, len(identity) <= maxPlain, "%q is hashed: %v", key, !ok)
		if rule == "" {
			rule = "default"
		}
		if ok && (gotRule != rule || gotIdentity != identity) {
			t.Errorf("%q decodes to %q, %q", key, gotRule, gotIdentity)
		}
	})
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, row := range []struct{ why, rule, identity, want string }{
		{"ordinary identities stay readable", "login", "ip:203.0.113.9", "p:7:{ip:203.0.113.9}:login"},
		{"so do networks", "", "ip:2001:db8:1:2::/64", "p:7:{ip:2001:db8:1:2::/64}:default"},
		{"a brace does not end the tag", "r", "}", "p:7:{%7D}:r"},
		{"an empty tag would be none", "r", "", "p:7:{%}:r"},
		{"a percent sign is not taken for an escape", "r", "%7D", "p:7:{%257D}:r"},
		{"a colon in a rule does not separate", "r:log", "a", "p:7:{a}:r%3Alog"},
		{"nor does a tag begin in a rule", "{", "a", "p:7:{a}:%7B"},
		{"all that is printable stays", "r", "!a~", "p:7:{!a~}:r"},
		{"a space is not", "r", "a b\x7f", "p:7:{a%20b%7F}:r"},
		{"what looks hashed is not", "r", "#00", "p:7:{%2300}:r"},
		{"nor what looks keyed", "r", "*00", "p:7:{%2A00}:r"},
		{"128 bytes are stored as they are", "r", long, "p:7:{" + long + "}:r"},
		{"129 are not", "r", long + "x", "p:7:{#0ec9eb33e74510bcdd1f2ea55206e82f}:r"},
	} {
		l := newLayout("p", nil)
		expect.Equal(t, l.key(row.rule, row.identity), row.want, "%s", row.why)
	}
}

func TestSecretHidesIdentities(t *testing.T) {
	one, other := newLayout("p", []byte("one")), newLayout("p", []byte("other"))
	a, b := one.key("r", "ann"), other.key("r", "ann")
	expect.True(t, a != b && !strings.Contains(a, "ann"), "%s and %s", a, b)
	expect.Equal(t, one.tagOf(one.key("r", "ann")), one.tagOf(one.key("s", "ann")), "the rules of an identity are in different slots")
	expect.NotEqual(t, one.key("r", ""), one.key("r", "ann"), "two identities have one key")
}
