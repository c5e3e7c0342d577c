package processes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// waiterOf is the environment variable that makes the test binary a waiter. Its value is the text of the waiter.
const waiterOf = "SPILLGATE_E2E_WAITER"

// A waiter is a process whose requests wait for their turn.
type waiter struct {
	addr string // of the Redis
	rate int    // requests per second
	most time.Duration
}

const (
	waiters   = 10  // processes
	eachWaits = 100 // requests of a process
)

func (w waiter) String() string { return fmt.Sprintf("%s %d %d", w.addr, w.rate, w.most) }

func (w waiter) limiter(client redis.UniversalClient) *core.Limiter {
	return core.Must(core.New([]core.Rule{{
		Name: "waiting", Limits: []core.Limit{core.PerSecond(w.rate).WithBurst(1)}, MaxWait: w.most, OnFailure: core.FailClosed,
	}}, core.WithStore(redisstore.New(client)), core.WithTimeout(wire.Timeout)))
}

// A decided is a request on the clock of the store, in microseconds since the Unix epoch: the instant of its decision,
// and the instant at which it went on or, if it was denied, at which the same request would be admitted to wait.
type decided struct {
	at, then int64
	allowed  bool
}

// runWaiter has many requests wait for their turns at once, as soon as it reads a line from standard input. It writes a
// line when it is ready, and one for each request.
func runWaiter(text string) error {
	var w waiter
	if _, err := fmt.Sscan(text, &w.addr, &w.rate, (*int64)(&w.most)); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: w.addr, ContextTimeoutEnabled: true})
	defer client.Close()
	l := w.limiter(client)
	if _, err := l.Take(context.Background(), core.Claim{Rule: "waiting", Key: "const:all", Peek: true}); err != nil { // connects
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	errs := make([]error, eachWaits)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			d, err := l.Wait(context.Background(), core.Claim{Rule: "waiting", Key: "const:all"})
			turn := d.At.Add(d.Wait)
			if err == nil && time.Now().Before(turn) {
				err = fmt.Errorf("%+v at %v", d, time.Now())
			}
			errs[i] = err
			fmt.Println(d.At.UnixMicro(), turn.Add(d.RetryAfter()).UnixMicro(), d.Allowed)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// waitAtOnce has ten processes with a hundred requests each wait at once. It returns what was decided, the admitted
// requests in the order of their turns, and how many calls the server has had.
func waitAtOnce(t *testing.T, rate int, most time.Duration) (admitted, denied []decided, n int) {
	server := redistest.Start(t)
	client := server.Client(t)
	var all []*wire.Process
	for range waiters {
		p := wire.Start(t, waiterOf+"="+waiter{server.Addr, rate, most}.String())
		defer time.AfterFunc(most+3*wire.Timeout, func() { _ = p.Process.Kill() }).Stop()
		must.True(t, p.Out.Scan() && p.Out.Text() == "ready", "a process is not ready")
		all = append(all, p)
	}
	must.Do(t, client.ConfigResetStat(t.Context()).Err())
	for _, p := range all {
		_, _ = fmt.Fprintln(p.In)
	}
	for _, p := range all {
		for p.Out.Scan() {
			var d decided
			must.Get(fmt.Sscan(p.Out.Text(), &d.at, &d.then, &d.allowed))(t)
			if d.allowed {
				admitted = append(admitted, d)
			} else {
				denied = append(denied, d)
			}
		}
		must.Do(t, p.Wait())
	}
	slices.SortFunc(admitted, func(a, b decided) int { return int(a.then - b.then) })
	must.Equal(t, len(admitted)+len(denied), waiters*eachWaits, "requests decided")
	return admitted, denied, calls(t, client)
}

// checkTurns checks that requests go on one by one at the rate, in the order of their decisions, and each as early as possible.
func checkTurns(t *testing.T, admitted []decided, period time.Duration) {
	for i, d := range admitted {
		want := d.at
		if i > 0 {
			want = max(d.at, admitted[i-1].then+period.Microseconds())
		}
		if d.then != want || i > 0 && d.at < admitted[i-1].at {
			t.Errorf("request %d was decided at %d and goes at %d, want %d; the one before: %+v", i, d.at, d.then, want, admitted[max(0, i-1)])
		}
	}
}

// waitRate returns the rate per second at which a thousand waiting requests go on: the environment variable SPILLGATE_WAIT_RATE, or 250.
func waitRate(t *testing.T) int {
	text := os.Getenv("SPILLGATE_WAIT_RATE")
	if text == "" {
		return 250
	}
	return must.Get(strconv.Atoi(text))(t)
}

// TestProcessesWaitInOneOrder checks that a thousand requests of ten processes proceed one by one, with one call each.
func TestProcessesWaitInOneOrder(t *testing.T) {
	rate := waitRate(t)
	admitted, denied, calls := waitAtOnce(t, rate, 2*time.Minute)
	expect.True(t, len(denied) == 0 && calls <= len(admitted),
		"%d admitted, %d denied, %d calls; want 1000, 0 and at most 1000", len(admitted), len(denied), calls)
	checkTurns(t, admitted, time.Second/time.Duration(rate))
	t.Logf("the last of %d requests went %v after the first", len(admitted), time.Duration(admitted[len(admitted)-1].then-admitted[0].then)*time.Microsecond)
}

// TestProcessesAreDeniedByOneOrder sends a thousand requests from ten processes, which may wait for one second. Only
// requests whose turn comes within a second go on. All others are denied until the instant at which the next turn is
// within a second, and no other request is admitted before that.
func TestProcessesAreDeniedByOneOrder(t *testing.T) {
	const rate, most = 10, time.Second
	const period = time.Second / rate
	admitted, denied, _ := waitAtOnce(t, rate, most)
	checkTurns(t, admitted, period)
	opens := make(map[int64]int) // by place: the instant at which the first request to arrive would be admitted to wait
	for i, d := range admitted {
		expect.AtMost(t, time.Duration(d.then-d.at)*time.Microsecond, most, "request %d waited", i)
		opens[d.then+(period-most).Microseconds()] = i + 1
	}
	for _, d := range denied {
		next, ok := opens[d.then]
		if !ok || d.then <= d.at || next < len(admitted) && admitted[next].at < d.then {
			t.Errorf("denied at %d until %d, want until a free turn is a second away; the next request: %d", d.at, d.then, next)
		}
	}
	t.Logf("%d admitted, %d denied", len(admitted), len(denied))
}
