package processes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// leaserOf is the environment variable that makes the test binary a leaser. Its value is the leaser as JSON.
const leaserOf = "SPILLGATE_E2E_LEASER"

// A leaser is a process that asks for one key again and again.
type leaser struct {
	Addrs  []string // of a server, of a cluster or of sentinels
	Master string   // what the sentinels call it
	Limit  string
	Lease  time.Duration
	Demand int // requests per second

	Timeout time.Duration // of a call; 0 means the limiter's default
}

// A turn counts the requests of a leaser between two instants, in microseconds since the Unix epoch.
type turn struct {
	begun, ended            int64
	asked, admitted, failed int
}

// timeout is the timeout of calls that limiters have by default.
const timeout = 50 * time.Millisecond

func (l *leaser) limiter() *core.Limiter {
	return l.limiterOver(redis.NewUniversalClient(&redis.UniversalOptions{Addrs: l.Addrs, MasterName: l.Master, ContextTimeoutEnabled: true}))
}

func (l *leaser) limiterOver(client redis.UniversalClient) *core.Limiter {
	rule := core.Rule{
		Name: "leased", Key: keyfunc.Const("all"), Limits: core.MustParseLimits(l.Limit), Lease: l.Lease, OnFailure: core.FailClosed,
	}
	return core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client)), core.WithTimeout(cmp.Or(l.Timeout, timeout))))
}

func claimAll() core.Claim { return core.Claim{Rule: "leased", Key: "const:all"} }

// run sends requests until standard input ends, and writes each turn at once, so that at most one turn is lost if the process dies.
func (l *leaser) run() error {
	redistest.DropLog()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	limiter, ended := l.limiter(), make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	owed := 0.0
	for last := time.Now(); ; time.Sleep(4 * time.Millisecond) {
		select {
		case <-ended:
			return nil
		default:
		}
		now := time.Now()
		owed = min(owed+now.Sub(last).Seconds()*float64(l.Demand), 50)
		last = now
		t := turn{begun: now.UnixMicro()}
		for ; owed >= 1; owed-- {
			t.ask(limiter)
		}
		t.ended = time.Now().UnixMicro()
		if _, err := fmt.Println(t.begun, t.ended, t.asked, t.admitted, t.failed); err != nil {
			return err
		}
	}
}

func (t *turn) ask(l *core.Limiter) {
	d, err := l.Take(context.Background(), claimAll())
	t.asked++
	switch {
	case err != nil:
		t.failed++
	case d.Allowed:
		t.admitted++
	}
}

// runLeaser runs this process as the leaser that text, the value of leaserOf, describes.
func runLeaser(text string) error {
	var l leaser
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	return l.run()
}

// A crew is a set of leasers, and the turns that all of them have written.
type crew struct {
	t      *testing.T
	leaser leaser
	mu     sync.Mutex
	turns  []turn
}

// admittedSince reports whether a request was admitted in a turn that began after an instant.
func (c *crew) admittedSince(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.turns, func(t turn) bool { return t.begun > at.UnixMicro() && t.admitted > 0 })
}

type member struct {
	*wire.Process
	read chan struct{} // closed once all its output has been read
}

// start starts another process of the crew and waits for its first request.
func (c *crew) start() *member {
	c.t.Helper()
	text := must.Get(json.Marshal(&c.leaser))(c.t)
	m := &member{wire.Start(c.t, leaserOf+"="+string(text)), make(chan struct{})}
	begun := make(chan struct{})
	go c.read(m, begun)
	select {
	case <-begun:
	case <-time.After(wire.Timeout):
		c.t.Error("a process did not start")
	}
	return m
}

func (c *crew) read(m *member, begun chan<- struct{}) {
	defer close(m.read)
	for m.Out.Scan() {
		var t turn
		if n, _ := fmt.Sscan(m.Out.Text(), &t.begun, &t.ended, &t.asked, &t.admitted, &t.failed); n < 5 {
			return // the process died while it wrote
		}
		c.mu.Lock()
		c.turns = append(c.turns, t)
		c.mu.Unlock()
		if begun != nil {
			close(begun)
			begun = nil
		}
	}
}

func (m *member) kill() {
	_ = m.Process.Process.Kill()
	<-m.read
	_ = m.Wait()
}

// stop ends m at the end of its turn.
func (m *member) stop() {
	m.In.Close()
	tooLate := time.AfterFunc(wire.Timeout, func() { _ = m.Process.Process.Kill() })
	<-m.read
	_ = m.Wait()
	tooLate.Stop()
}
