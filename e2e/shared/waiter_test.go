package shared

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/redistest"
)

// waiterOf is the environment variable that makes the test binary a waiter: it names the Redis.
const waiterOf = "SPILLGATE_E2E_WAITER"

const (
	waiters    = 10  // processes
	eachWaits  = 100 // requests of a process
	waitRate   = 100 // requests per second
	waitPeriod = time.Second / waitRate
)

// waitingLimiter returns a limiter whose requests wait for their turn.
func waitingLimiter(client redis.UniversalClient) *core.Limiter {
	return core.Must(core.New([]core.Rule{{
		Name: "waiting", Limits: []core.Limit{core.PerSecond(waitRate).WithBurst(1)}, MaxWait: 2 * time.Minute, OnFailure: core.FailClosed,
	}}, core.WithStore(redisstore.New(client)), core.WithTimeout(wire.Timeout)))
}

// A went is a request that has waited: when it was decided, and when it could go on, in microseconds since the Unix epoch.
type went struct{ at, turn int64 }

// runWaiter has many requests wait for their turn at once as soon as a line comes from standard input. It writes a line when it is ready,
// and one for each request.
func runWaiter(addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	l := waitingLimiter(client)
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
			if turn := d.At.Add(d.Wait); err == nil && (!d.Allowed || time.Now().Before(turn)) {
				err = fmt.Errorf("%+v at %v", d, time.Now())
			}
			errs[i] = err
			fmt.Println(d.At.UnixMicro(), d.At.Add(d.Wait).UnixMicro())
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestProcessesWaitInOneOrder has ten processes with a hundred requests each wait at once: one goes each 10ms, in the order of the
// decisions, and each has made one call.
func TestProcessesWaitInOneOrder(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	var cmds []*exec.Cmd
	var outs []*bufio.Scanner
	var starts []func()
	for range waiters {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), waiterOf+"="+server.Addr)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer time.AfterFunc(3*wire.Timeout, func() { _ = cmd.Process.Kill() }).Stop()
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatal("a process is not ready")
		}
		cmds, outs, starts = append(cmds, cmd), append(outs, lines), append(starts, func() { _, _ = fmt.Fprintln(in) })
	}
	if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, start := range starts {
		start()
	}
	var all []went
	for i, lines := range outs {
		for lines.Scan() {
			var w went
			if _, err := fmt.Sscan(lines.Text(), &w.at, &w.turn); err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
		}
		if err := cmds[i].Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) != waiters*eachWaits {
		t.Fatalf("%d requests went, want %d", len(all), waiters*eachWaits)
	}
	slices.SortFunc(all, func(a, b went) int { return int(a.turn - b.turn) })
	for i := 1; i < len(all); i++ {
		if apart := all[i].turn - all[i-1].turn; apart != waitPeriod.Microseconds() || all[i].at < all[i-1].at {
			t.Errorf("request %d went %dµs after the one before, decided %dµs after it", i, apart, all[i].at-all[i-1].at)
		}
	}
	if n := callsOf(t, client); n > len(all) {
		t.Errorf("%d calls for %d requests", n, len(all))
	}
}

// callsOf returns how many calls of functions and scripts a server has had.
func callsOf(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	for line := range strings.Lines(client.Info(t.Context(), "commandstats").Val()) {
		for _, command := range []string{"fcall", "evalsha", "eval"} {
			if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
				var calls int
				if _, err := fmt.Sscanf(rest, "%d", &calls); err != nil {
					t.Fatal(err)
				}
				n += calls
			}
		}
	}
	return n
}
