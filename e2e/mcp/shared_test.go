package mcp

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
)

// Limits of each tool and user, of each user, and of all. They are per hour, so that nothing refills while the test runs.
const (
	perToolAndUser = 10
	perUser        = 60
	perServer      = 1000
)

// newLimiter returns the limiter of one server of several.
func newLimiter(t *testing.T, addr string) *core.Limiter {
	client := redistest.NewClient(t, &redis.Options{Addr: addr})
	rule := func(name string, key core.KeyFunc, n int) core.Rule {
		return core.Rule{
			Name: name, Key: key, Limits: []core.Limit{core.PerHour(n).Using(core.SlidingLog)}, Routes: []string{"POST /tools/call/"}, OnFailure: core.FailClosed,
		}
	}
	return core.Must(core.New([]core.Rule{
		rule("tool", keyfunc.Join(mcplimit.User, keyfunc.Pattern), perToolAndUser),
		rule("user", mcplimit.User, perUser),
		rule("server", keyfunc.Const("all"), perServer),
	}, core.WithStore(redisstore.New(client)), core.WithTimeout(wire.Timeout)))
}

// counts are how many calls were admitted, by user and by user and tool.
type counts struct {
	mu           sync.Mutex
	all          int
	users, tools map[string]int
	denials      map[string]int // by rule
}

// TestAgents has 100 agents call the tools of 4 servers that share a Redis, in three groups one after the other. Whatever the order of
// calls within a group, the test knows how many must be admitted, unless some rule charges a denied call.
func TestAgents(t *testing.T) {
	addr := redistest.Start(t).Addr
	var urls [4]string
	for i := range urls {
		urls[i] = serve(t, newServer(newLimiter(t, addr)), i%2 == 1).URL
	}
	total := 0
	for _, group := range []struct {
		agents, tools, calls int // each agent calls each tool so often
		each                 int // how many calls of each agent are admitted; 0 if that depends on the order
		all                  int
		by                   []string // the rules that deny
	}{
		{10, len(names), perToolAndUser + 2, perUser, 10 * perUser, []string{"tool", "user"}},
		{30, 1, perToolAndUser + 2, perToolAndUser, 30 * perToolAndUser, []string{"tool"}},
		{60, 5, 4, 0, perServer - 10*perUser - 30*perToolAndUser, []string{"server"}},
	} {
		c := counts{users: map[string]int{}, tools: map[string]int{}, denials: map[string]int{}}
		var agents sync.WaitGroup
		for i := range group.agents {
			agents.Go(func() { c.run(t, urls, fmt.Sprintf("agent-%d-%d", group.agents, i), names[:group.tools], group.calls) })
		}
		agents.Wait()
		total += c.all
		expect.Equal(t, c.all, group.all, "%d agents: calls admitted", group.agents)
		for user, n := range c.users {
			if n > perUser || group.each > 0 && n != group.each {
				t.Errorf("%s: %d calls were admitted, want %d", user, n, group.each)
			}
		}
		for tool, n := range c.tools {
			expect.AtMost(t, n, perToolAndUser, "%s: calls admitted", tool)
		}
		for rule := range c.denials {
			expect.True(t, slices.Contains(group.by, rule), "%d agents: denied by %v, want only %q", group.agents, c.denials, group.by)
		}
	}
	expect.Equal(t, total, perServer, "calls admitted")
}

// run calls each tool so often, at all servers at the same time.
func (c *counts) run(t *testing.T, urls [4]string, user string, tools []string, calls int) {
	var servers sync.WaitGroup
	for i, url := range urls {
		servers.Go(func() {
			s := connect(t, url, user)
			defer s.Close()
			for n := i; n < calls*len(tools); n += len(urls) {
				tool := tools[n/len(urls)%len(tools)]
				code, rules := call(t, s, tool)
				c.mu.Lock()
				switch code {
				case 0:
					c.all++
					c.users[user]++
					c.tools[user+" "+tool]++
				case -32029:
					for _, rule := range rules {
						c.denials[rule]++
					}
				default:
					t.Errorf("%s gets code %d", user, code)
				}
				c.mu.Unlock()
			}
		})
	}
	servers.Wait()
}

// TestRedisKilled calls a tool under each failure mode, after Redis has been killed and while it does not answer.
func TestRedisKilled(t *testing.T) {
	for _, stalled := range []bool{false, true} {
		for _, row := range []struct {
			mode core.FailureMode
			want []int64
		}{
			{core.FailLocal, []int64{0, 0, -32029}},
			{core.FailOpen, []int64{0, 0, 0}},
			{core.FailClosed, []int64{jsonrpc.CodeInternalError, jsonrpc.CodeInternalError, jsonrpc.CodeInternalError}},
		} {
			t.Run(fmt.Sprintf("mode %d, stalled %v", row.mode, stalled), func(t *testing.T) {
				server := redistest.Start(t)
				proxy := redistest.StartProxy(t, server.Addr)
				client := redistest.NewClient(t, &redis.Options{Addr: proxy.Addr})
				l := core.Must(core.New([]core.Rule{{
					Name: "user", Key: mcplimit.User, Limits: []core.Limit{core.PerHour(2)}, Routes: []string{"POST /tools/call/"}, OnFailure: row.mode,
				}}, core.WithStore(redisstore.New(client))))
				if stalled {
					proxy.Fault.Store(redistest.BlackHole)
				} else {
					server.Kill()
				}
				for n := 0; row.mode == core.FailOpen && !l.StoreHealth().Down && n < 100; n++ { // until then, this process's own limits decide
					_, _ = l.Take(t.Context(), core.Claim{Rule: "user", Key: "user:other"})
				}
				for _, stateless := range []bool{false, true} {
					s := connect(t, serve(t, newServer(l), stateless).URL, fmt.Sprint("ann", stateless))
					for i, want := range row.want {
						start := time.Now()
						code, _ := call(t, s, "search")
						if took := time.Since(start); code != want || took > deadline {
							t.Errorf("stateless %v: call %d gets code %d after %v, want %d", stateless, i+1, code, took, want)
						}
					}
					_ = s.Close()
				}
			})
		}
	}
}

// deadline is how long a call may take while Redis does not reply: the limiter's timeout, and an allowance for a busy machine.
const deadline = 5 * time.Second
