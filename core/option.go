package core

import (
	"log/slog"
	"net/http"
	"reflect"
	"time"
)

// An Option configures a Limiter.
type Option func(*config) error

// config is what options set.
type config struct {
	store      Store
	fallback   Store
	skips      []func(*http.Request) bool
	observers  []Observer
	logger     *slog.Logger
	timeout    time.Duration
	maxWaiting int
}

// apply applies opts and returns all mistakes in them.
func (c *config) apply(opts []Option) (errs []error) {
	for i, opt := range opts {
		if opt == nil {
			opt = func(*config) error { return invalid("option %d of %d: option is nil; leave it out", i+1, len(opts)) }
		}
		errs = append(errs, opt(c))
	}
	for _, s := range []Store{c.store, c.fallback} {
		if v, ok := s.(interface{ Validate() error }); ok {
			errs = append(errs, v.Validate())
		}
	}
	return errs
}

// WithStore keeps the state of all keys in s. The default is the limiter's own MemoryStore. If s has a method Validate()
// error, New reports its error. WithStore may be given once.
//
// Limiters that share a store share the state of rules with the same name. So New reports a rule whose limits differ from
// the rule of that name in another limiter with this store, unless that limiter has been garbage collected. To change
// limits, use SetRules. Stores share their state if they are equal or, if they have a method SharedState() any, if that
// returns equal values: two redisstore.Stores over the same client with the same prefix are one store.
func WithStore(s Store) Option {
	return func(c *config) error {
		return setOnce(&c.store, s, "WithStore: a second store is given", "WithStore: store is nil; want one such as redisstore.New, or leave the option out")
	}
}

// setOnce sets a store of a config to s. Its error has one of the texts if that is set already, or if s is nil or holds a nil
// pointer, map or func.
func setOnce(place *Store, s Store, second, isNil string) error {
	switch v := reflect.ValueOf(s); {
	case s == nil, (v.Kind() == reflect.Pointer || v.Kind() == reflect.Map || v.Kind() == reflect.Func) && v.IsNil():
		return invalid("%s", isNil)
	case *place != nil:
		return invalid("%s; a limiter has one", second)
	}
	*place = s
	return nil
}

// WithFallback sets the store that rules with FailLocal use while the store is down. The default is a MemoryStore. Any
// other store gets a deadline of its own: WithTimeout, counted from the failure of the first store. If the
// fallback fails too, Check returns ErrUnavailable. WithFallback may be given once.
func WithFallback(s Store) Option {
	return func(c *config) error {
		return setOnce(&c.fallback, s, "WithFallback: a second fallback is given", "WithFallback: fallback is nil; want a store, or leave the option out for a MemoryStore")
	}
}

// WithTimeout sets how long a decision waits for the store. The default is 50ms. After that, the failure modes of the rules
// decide.
func WithTimeout(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return invalid("WithTimeout: timeout must be positive, got %v", d)
		}
		c.timeout = d
		return nil
	}
}

// WithMaxWaiting sets how many requests of the limiter may wait for their turn at the same time, in Wait and in adapters. The
// requests of one rule and key, and the requests from one peer, may take a quarter of these places, rounded up. Beyond that, a
// request that does not fit now is denied, as if its rules had no MaxWait. The default is 10,000.
//
// A peer is an address or an IPv6 network of 64 bits. A private or loopback address is usually a proxy, so each of its connections
// counts by itself; a Unix socket does not count.
func WithMaxWaiting(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return invalid("WithMaxWaiting: at least one request must be able to wait, got %d", n)
		}
		c.maxWaiting = n
		return nil
	}
}

// WithSkip exempts requests for which skip reports true: they are admitted and not charged. WithSkip may be given
// several times: a request is exempt if any skip reports true.
//
// Routers and servers behind a proxy can read a path in other ways than r.URL.Path: "/x/../healthz" or "/%68ealthz", for
// example. To exempt a route, compare RoutePattern, which is the route that serves r.
func WithSkip(skip func(*http.Request) bool) Option {
	return func(c *config) error {
		if skip == nil {
			return invalid("WithSkip: skip is nil; want a func, or leave the option out")
		}
		c.skips = append(c.skips, skip)
		return nil
	}
}

// WithObserver adds an observer, which is called for each request that a rule applies to. WithObserver may be given
// several times; observers are called in that order.
func WithObserver(o Observer) Option {
	return func(c *config) error {
		if o == nil {
			return invalid("WithObserver: observer is nil; want a func, or leave the option out")
		}
		c.observers = append(c.observers, o)
		return nil
	}
}

// WithLogger sets the logger for outages of the store, for requests that could not be decided (unless an observer has
// logged them), and for observers that panic. The default is slog.Default(), looked up when a line is logged.
// docs/operate.md lists every message.
func WithLogger(logger *slog.Logger) Option {
	return func(c *config) error {
		if logger == nil {
			return invalid("WithLogger: logger is nil; want one, or leave the option out for slog.Default")
		}
		c.logger = logger
		return nil
	}
}

// Preflight reports whether r is a CORS preflight: OPTIONS with both Origin and Access-Control-Request-Method.
// It is meant for WithSkip. See https://fetch.spec.whatwg.org/#cors-preflight-request.
//
// Skip preflights only where a CORS middleware inside the limiter answers them. Any client can send these headers: without
// such a middleware, its OPTIONS requests reach the handler and are not counted. Where the CORS middleware is outside the
// limiter, preflights do not reach the limiter, and nothing needs to be skipped.
func Preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}
