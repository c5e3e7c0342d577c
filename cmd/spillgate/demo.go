package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spillgate/spillgate/core"
)

const shutdownTimeout = 5 * time.Second

func newDemo() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve five limited routers and a live page, and send them traffic",
		Long: "demo serves a limited route with each of net/http, chi, gin, echo v4 and echo v5. It sends requests to each router\n" +
			"until one is denied, waits for as long as the denial says, and sends one more. It shows the responses, checks them, and\n" +
			"keeps serving until interrupted. Meanwhile, clients of several kinds send requests to a shop, and a page shows them live.",
		Example: "  spillgate demo\n" +
			"  spillgate demo --once --limits '3/1s, 20/1m;sliding-log' --headers both\n" +
			"  spillgate demo --rules cmd/spillgate/spillgate.yaml\n" +
			"  spillgate demo --key apikey:X-Api-Key --redis redis://127.0.0.1:6379",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := o.plan()
			if err != nil {
				return err
			}
			return demo(cmd.Context(), p, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().AddFlagSet(demoFlags(&o))
	return cmd
}

// demoFlags returns the flags of the demo, which set o.
func demoFlags(o *options) *pflag.FlagSet {
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	flags.StringVar(&o.addr, "addr", "127.0.0.1:8080", "`address` to listen on; port 0 picks a free one")
	flags.StringVar(&o.limits, "limits", "5/10s", "`limits` of each client at each router, such as '10/s, 100/m;burst=20'")
	flags.StringVar(&o.key, "key", "ip", "what identifies a client: `ip|header:NAME|apikey:NAME`")
	flags.StringVar(&o.headers, "headers", "github", "rate limit headers: `github|ietf|both`")
	flags.StringSliceVar(&o.trust, "trust", nil, "`CIDR` of proxies to trust: their X-Forwarded-For names the client; repeatable")
	flags.StringVar(&o.redis, "redis", "", "`URL` of the Redis that keeps the state, such as redis://127.0.0.1:6379")
	flags.StringVar(&o.rules, "rules", "", "`file` with the rules of the demo's shop; changes take effect within 3 seconds")
	flags.BoolVar(&o.quiet, "quiet", false, "send no traffic after the first requests")
	flags.BoolVar(&o.once, "once", false, "exit after the first requests, with an error if a router answered wrongly")
	return flags
}

// demo serves the routers, sends the requests and reports on them. With p.once it returns an error if a router answered wrongly;
// otherwise it serves until ctx is done, and returns nil.
func demo(ctx context.Context, p plan, stdout, stderr io.Writer) error {
	store, closeStore, err := openStore(ctx, p.redis)
	if err != nil {
		return err
	}
	defer closeStore()
	served, err := newApp(p, core.WithStore(store), core.WithTimeout(storeTimeout), core.WithObserver(warnDegraded(stderr)))
	if err != nil {
		return err
	}
	base, shutdown, err := listen(p.addr, served)
	if err != nil {
		return err
	}
	defer shutdown()
	if p.rules != "" && !p.once {
		defer served.watch(ctx, p.rules, stderr)()
	}

	out := &report{w: stdout, plan: p, base: base}
	out.introduce()
	visits := visitAll(ctx, base, p.key.header)
	if ctx.Err() != nil {
		return interrupted(p.once)
	}
	wrong := check(visits, p.limits, p.redis != "")
	out.answers(visits, wrong)
	out.invite()
	switch {
	case p.once:
		return wrong
	case p.quiet:
		<-ctx.Done()
	default:
		serveTraffic(ctx, base, stdout)
	}
	return nil
}

// serveTraffic sends traffic to the shop and shows the answers until ctx is done.
func serveTraffic(ctx context.Context, base string, stdout io.Writer) {
	callers := newCallers()
	var wg sync.WaitGroup
	wg.Go(func() { sendTraffic(ctx, base, callers) })
	showTraffic(ctx, stdout, callers)
	wg.Wait()
}

// interrupted returns the error for an interrupt while the demo sends its first requests.
func interrupted(once bool) error {
	if once {
		return errors.New("interrupted before every router had answered")
	}
	return nil
}

// listen serves h on addr. It returns the URL of the server for this machine, and a function that shuts the server down
// after a short wait for requests in flight.
func listen(addr string, h http.Handler) (base string, shutdown func(), err error) {
	ln, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "", nil, fmt.Errorf("cannot listen on %s: the port is in use; choose another with --addr", addr)
	case err != nil:
		return "", nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = server.Serve(ln) }() // ends with the shutdown
	return "http://" + reachable(ln.Addr().(*net.TCPAddr)), func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
	}, nil
}

// reachable returns addr, or loopback if addr stands for all addresses.
func reachable(addr *net.TCPAddr) string {
	host := addr.IP.String()
	if addr.IP == nil || addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// inWords returns limits in the notation of --limits.
func inWords(limits []core.Limit) string {
	words := make([]string, len(limits))
	for i, l := range limits {
		words[i] = l.String()
	}
	return strings.Join(words, ", ")
}
