package redisx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"github.com/spillgate/spillgate/internal/testpass"
)

// loadAddr names the variable that turns the test binary into a load generator for the Redis Cluster or server at an address.
const loadAddr = "SPILLGATE_TEST_LOAD"

func TestMain(m *testing.M) {
	redistest.DropLog()
	if addr := os.Getenv(loadAddr); addr != "" {
		client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(addr, ",")})
		failures := 0
		admitted := load(redisx.New(client, options), ended(os.Stdin), func(err error) {
			failures++
			fmt.Println(err)
		})
		_ = json.NewEncoder(os.Stdout).Encode(admitted)
		os.Exit(min(failures, 1))
	}
	os.Exit(m.Run())
}

// capacity is the number of requests that each of exactLimits admits while the tests run.
const capacity = 300

// A perAlgorithm has a number for each of exactLimits.
type perAlgorithm [core.InFlight]int64

func all(n int64) (each perAlgorithm) {
	for i := range each {
		each[i] = n
	}
	return each
}

// exactLimits admit capacity requests and then none for a long time.
func exactLimits() []core.Limit { return everyAlgorithm(capacity, ages) }

// load takes from all limits with several callers, until each limit has denied some requests and enough reports true. It returns
// how many requests each limit admitted. Some requests are of one identity, some of two at once.
func load(s *redisx.Store, enough func() bool, failed func(error)) (admitted perAlgorithm) {
	var wg sync.WaitGroup
	for i, l := range exactLimits() {
		for caller := range 4 {
			wg.Go(func() {
				for denied := 0; denied < 20 || !enough(); {
					key := fmt.Sprintf("limit:%d", i)
					claims := []core.Claim{claimOf(key, l)}
					if caller%2 == 0 {
						claims = append(claims, claimOf("second "+key, l))
					}
					results, err := s.Take(context.Background(), claims, nil)
					switch {
					case err != nil && l.Algorithm == core.SlidingLog && (strings.HasPrefix(err.Error(), "TRYAGAIN") || strings.HasPrefix(err.Error(), "ASK")):
						// its keys are on two nodes
						denied++
					case err != nil:
						failed(err)
						denied++
					case allowed(results):
						atomic.AddInt64(&admitted[i], 1)
					default:
						denied++
					}
				}
			})
		}
	}
	wg.Wait()
	return admitted
}

// loadFromProcesses runs load in eight processes, until enough reports true, and returns how many requests each limit admitted.
func loadFromProcesses(t *testing.T, enough func() bool, addrs ...string) (total perAlgorithm) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	stdin, end, err := os.Pipe()
	must.Do(t, err)
	defer stdin.Close()
	var processes sync.WaitGroup
	processes.Go(func() {
		defer end.Close()
		for !enough() && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	})
	for range 8 {
		processes.Go(func() {
			p := exec.CommandContext(ctx, os.Args[0])
			p.Stdin = stdin
			p.Env = append(os.Environ(), loadAddr+"="+strings.Join(addrs, ","))
			out, err := p.Output()
			var n perAlgorithm
			if err == nil {
				err = json.Unmarshal(out, &n)
			}
			expect.NoError(t, err, "%s", out)
			for i := range total {
				atomic.AddInt64(&total[i], n[i])
			}
		})
	}
	processes.Wait()
	return total
}

func TestProcessesAdmitExactlyTheLimit(t *testing.T) {
	expect.Equal(t, loadFromProcesses(t, func() bool { return true }, redistest.Start(t).Addr), all(capacity), "admitted")
}

func TestProcessesAdmitExactlyTheLimitWhileSlotsMigrate(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := redisx.New(cluster.Client(t), options)
	var addrs []string
	for _, n := range cluster.Nodes {
		addrs = append(addrs, n.Addr)
	}
	moved, stop := moveSlots(t, cluster, []string{"limit:0", "limit:1", "limit:2", "limit:3"})
	admitted := loadFromProcesses(t, func() bool { return moved.Load() >= 4 }, addrs...)
	stop()
	// A request of two identities may be denied by a charge that is about to be given back, so some of the capacity may be left.
	for i, l := range exactLimits() {
		for allowed(take(t, s, claimOf(fmt.Sprintf("limit:%d", i), l))) {
			admitted[i]++
		}
	}
	expect.Equal(t, admitted, all(capacity), "admitted")
	allExpire(t, cluster.Client(t))
}

// moveSlots moves the slots of four keys to other nodes, one after the other, until stop is called, and counts the moves.
func moveSlots(t *testing.T, cluster *redistest.Cluster, keys []string) (moved *atomic.Int64, stop func()) {
	moved = new(atomic.Int64)
	var done atomic.Bool
	var moves sync.WaitGroup
	moves.Go(func() {
		for i := 0; !done.Load(); i++ {
			slot := cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), "{"+keys[i%4]+"}").Val()
			cluster.Move(t, int(slot), (1+i/4)%3)
			moved.Add(1)
		}
	})
	return moved, func() {
		done.Store(true)
		moves.Wait()
	}
}

// A sliding log has a key of its own: in a slot that migrates, the server does not run a script with both.
func TestNewKeysInASlotThatMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := redisx.New(cluster.Client(t), options)
	ctx := context.Background()
	limits := everyAlgorithm(5, ages)[:3]
	old, both := claimOf("{a}", limits...), []core.Claim{claimOf("a", limits...), {Rule: "other", Key: "a", Limits: limits}}
	take(t, s, claimOf("a", limits[0]))
	slot := int(cluster.Nodes[0].Client(t).ClusterKeySlot(ctx, "{a}").Val())
	from := cluster.Owner(t, slot)
	cluster.BeginMigration(t, slot, from, (from+1)%3)
	results, err := s.Take(ctx, both, nil)
	must.True(t, err == nil && allowed(results) && results[0].Remaining == 3 && results[5].Remaining == 4, "%+v, %v", results, err)
	both[1].Cost = 5
	for range 2 { // the second time shows that the first was given back
		denied := take(t, s, both...)
		expect.True(t, !allowed(denied) && denied[0].Remaining == 3 && denied[2].Remaining == 4 && denied[5].Remaining == 4,
			"a denied request leaves %+v", denied)
	}
	both[1].Cost = 1
	must.Do(t, s.Settle(ctx, settled(both, results)))
	for _, c := range both {
		c.Peek = true
		r := take(t, s, c)
		expect.True(t, r[1].Remaining == 5 && r[2].Remaining == 5, "after a refund: %+v", r)
	}
	must.Do(t, s.Reset(ctx, pairsOf(both...)))
	r := take(t, s, both...)
	expect.True(t, allowed(r) && r[0].Remaining == 4, "after a reset: %+v", r)
	take(t, s, old)

	log := claimOf("k", core.PerDay(5).Using(core.SlidingLog)) // its pair moves before its set
	for _, log.Cost = range []int{5, 4} {
		take(t, s, log)
		held := log // a hold that ends charges the log
		held.Cost, held.Hold = 5-log.Cost, log.Cost < 5
		take(t, s, held)
		slot = int(cluster.Nodes[0].Client(t).ClusterKeySlot(ctx, pairKey).Val())
		from = cluster.Owner(t, slot)
		cluster.BeginMigration(t, slot, from, (from+1)%3)
		must.Do(t, cluster.Nodes[from].Client(t).Do(ctx, "migrate", "127.0.0.1", cluster.Nodes[(from+1)%3].Port(), pairKey, 0, 5000).Err())
		must.Do(t, s.Reset(ctx, pairsOf(log)))
		cluster.Move(t, slot, (from+1)%3)
		s.Shift(2 * time.Minute)
		expect.True(t, allowed(take(t, s, log)), "a reset forgot only what was on one node")
		must.Do(t, s.Reset(ctx, pairsOf(log)))
	}
}

// TestRequestsOfABatchAreDecidedInOrder checks that each of 64 concurrent callers gets the result of its own place in the order.
func TestRequestsOfABatchAreDecidedInOrder(t *testing.T) {
	const rate = 600
	s, client := started(t)
	for name, claims := range map[string][]core.Claim{
		"one bucket":   {claimOf("a", core.PerDay(rate))},
		"some buckets": {claimOf("b", core.PerDay(rate), core.Every(rate, 9*24*time.Hour)), claimOf("c", core.PerDay(rate))},
		"all kinds":    {claimOf("d", everyAlgorithm(rate, 365*24*time.Hour)...)},
	} {
		t.Run(name, func(t *testing.T) {
			before := calls(t, client, "fcall")
			var mu sync.Mutex
			var remaining []int
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() {
					for range rate / 64 * 2 {
						results, err := s.Take(context.Background(), claims, nil)
						if err != nil {
							t.Error(err)
							return
						}
						if allowed(results) {
							mu.Lock()
							remaining = append(remaining, results[0].Remaining)
							mu.Unlock()
						}
					}
				})
			}
			callers.Wait()
			slices.Sort(remaining)
			for i, n := range remaining {
				must.Equal(t, i, n, "no request left remaining")
			}
			expect.Equal(t, len(remaining), rate, "admitted")
			expect.AtMost(t, calls(t, client, "fcall")-before, rate/64*2*64/2, "calls for %d requests", rate/64*2*64)
		})
	}
}

// TestCallThatHangsDelaysNoLaterRequest checks that requests do not queue behind calls that hang for a minute and whose callers
// have given up.
func TestCallThatHangsDelaysNoLaterRequest(t *testing.T) {
	s, proxy, one := silentServer(t)
	c := []core.Claim{one}
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			expect.ErrorIs(t, expect.ErrorOf(s.Take(ctx, c, nil)), context.DeadlineExceeded, "take after its deadline")
		})
	}
	callers.Wait()
	proxy.Fault.Store(redistest.NoFault)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	expect.NoError(t, expect.ErrorOf(s.Take(ctx, c, nil)), "after calls that hang")
}

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
		want := documented[row.row]
		expect.True(t, got >= want*85/100 && got <= want*115/100, "%s: %d bytes, and the docs say %d", row.row, got, want)
		delete(documented, row.row)
	}
	expect.AtMost(t, len(documented), 0, "the docs have rows that nobody measures: %v", documented)
}

// memoryPerPair returns how much memory a server uses for each pair of which it has decided so many requests, its table of keys included.
func memoryPerPair(t *testing.T, client *redis.Client, claim core.Claim, requests int, apart time.Duration) int {
	t.Helper()
	flush(t, client)
	s, pairs := redisx.New(client, options), 12_000/max(1, requests/4)
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
	return (usedMemory(t, client) - before) / pairs
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

// A server is so far away that a connection takes longer than a decision may wait, and so does the library. Connections come up outside
// of decisions, at the start and again after the server was away, and the library then.
func TestConnectionsAreOpenedOutsideOfDecisions(t *testing.T) {
	const roundTrip = 300 * time.Millisecond
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redistest.NewClient(t, &redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true, DialTimeout: time.Minute})
	client.AddHook(narrow{})
	proxy.Fault.Store(redistest.Fault{Delay: roundTrip})
	rule := core.Rule{Name: "r", Limits: []core.Limit{core.PerDay(1000)}, OnFailure: core.FailClosed}
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client)), core.WithTimeout(2*roundTrip)))
	decides := func() bool {
		_, err := l.Take(context.Background(), core.Claim{Rule: "r", Key: "k"})
		must.True(t, err == nil || errors.Is(err, core.ErrUnavailable), "%v", err)
		return err == nil
	}
	redistest.Wait(t, "the server to decide", decides)
	proxy.Reject()
	expect.True(t, !decides(), "a decision without a server")
	proxy.Accept(t)
	redistest.Wait(t, "the server to decide again", decides)
}

// A narrow hook loads a library only for a caller that has a second left: it is too long for one round trip of a new connection.
type narrow struct{ redistest.Hook }

func (narrow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if ends, _ := ctx.Deadline(); cmd.Name() == "function" && time.Until(ends) < time.Second {
			return context.DeadlineExceeded
		}
		return next(ctx, cmd)
	}
}

// The server keeps the plans of requests. A settlement of a key that also has the state of another tier leaves nothing behind that changes
// the settlements of other keys: here, a refund of the last window gives nothing back to the current one.
func TestSettlementLeavesNothingBehind(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	s.SetClock(func() time.Time { return start })
	day := []core.Limit{core.PerMinute(9).Using(core.FixedWindow), core.PerHour(50).Using(core.SlidingWindow)}
	other := claimOf("other", day[0], core.PerHour(40).Using(core.SlidingWindow))
	other.Limits[1].Buckets = 2
	first, c := claimOf("other", day...), claimOf("k", day...)
	c.Cost = 3
	take(t, s, other)
	take(t, s, first)
	take(t, s, c)
	more := settledAt(start, first)
	more[0].Final = 4
	s.Shift(time.Minute)
	take(t, s, c)
	for _, some := range [][]core.Settlement{more, settledAt(start, c)} {
		must.Do(t, s.Settle(t.Context(), some))
	}
	if r := take(t, s, claimOf("k", day...)); r[0].Remaining != 5 || r[1].Remaining != 46 {
		t.Errorf("%d remain of the window and %d of the sliding window, want 5 and 46", r[0].Remaining, r[1].Remaining)
	}
}

// The error names each grant to a log among the settlements of a call: the server does not say which of them is too much.
func TestTooLargeAGrantIsNamed(t *testing.T) {
	s, _ := frozen(t)
	log := core.MustParseLimits("1000/h;sliding-log")
	grants := []core.Settlement{{Rule: "bucket", Key: "k", Limits: core.MustParseLimits("9/h"), Grant: 1}, {Rule: "log", Key: "k", Limits: log, Grant: 9001}}
	err := s.Settle(t.Context(), grants)
	const want = `spillgate: grant of rule "log": requests must be at most 9000 for 1000/1h;sliding-log, together with earlier grants, got 9001`
	expect.True(t, errors.Is(err, core.ErrInvalid) && err.Error() == want, "got %v, want %s", err, want)
}
