package processes

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/redistest"
)

// childOf is the environment variable that makes the test binary another process of the application: it names the Redis.
const childOf = "SPILLGATE_E2E_REDIS"

func TestMain(m *testing.M) {
	for variable, run := range map[string]func(string) error{childOf: serveAll, leaserOf: runLeaser, waiterOf: runWaiter} {
		text := os.Getenv(variable)
		if text == "" {
			continue
		}
		if err := run(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.DropLog()
	os.Exit(m.Run())
}

// serveAll serves what everyHost returns until its standard input ends. It prints its address.
func serveAll(addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer client.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, everyHost(redisstore.New(client), client)) }()
	fmt.Println(l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// everyHost serves the same rules by each framework. The suffix of a request's host, after a dash, names the framework,
// the limit of failing logins, or how many requests may run at once.
func everyHost(store core.Store, client *redis.Client) http.Handler {
	built := map[string]http.Handler{}
	for _, f := range apps.Frameworks {
		built[f.Name] = f.Build(apps.Limited(newLimiter(store), wire.OK))
	}
	for host, a := range logins {
		built[strings.TrimPrefix(host, "login-")] = failing(store, a)
	}
	for name, n := range places {
		built[name] = occupied(store, client, n)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, name, _ := strings.Cut(r.Host, "-")
		built[name].ServeHTTP(w, r)
	})
}

// capacity is how many requests pass.
const capacity = 40

// newLimiter returns the limiter of every process: capacity requests per hour and host, counted exactly.
func newLimiter(store core.Store) *core.Limiter {
	rule := core.PerHour(capacity).Using(core.SlidingLog).By(keyOf)
	rule.Name = "shared"
	rule.OnFailure = core.FailClosed
	return core.Must(core.New([]core.Rule{rule}, core.WithStore(store), core.WithTimeout(wire.Timeout)))
}

// keyOf returns the whole host as the key, so that each framework of each test has a limit of its own.
func keyOf(r *http.Request) (string, error) { return "host:" + r.Host, nil }

// startChild starts another process and returns its address. The process ends with the test.
func startChild(t *testing.T, redisAddr string) string {
	addr, _ := startProcess(t, redisAddr)
	return addr
}

// startProcess does what startChild does, and returns the process as well, to be killed.
func startProcess(t *testing.T, redisAddr string) (addr string, p *os.Process) {
	return wire.Child(t, childOf+"="+redisAddr)
}
