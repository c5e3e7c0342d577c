package core

import (
	"context"
	"net/http"
	"time"
)

const defaultTimeout = 50 * time.Millisecond

// An Option changes how a Limiter behaves.
type Option func(*Limiter) error

// An Observer is told of each decision once it is made. It must not block: the request waits for it.
// When a rule fails closed, or the claims were at fault, it sees a denied decision that has no results.
type Observer func(ctx context.Context, d Decision)

// WithStore keeps state in s. Without it, a limiter has a MemoryStore of its own.
func WithStore(s Store) Option {
	return func(l *Limiter) error {
		if s == nil {
			return invalid("store is nil")
		}
		l.store = s
		return nil
	}
}

// WithSkip admits requests for which skip reports true without charging them.
func WithSkip(skip func(*http.Request) bool) Option {
	return func(l *Limiter) error {
		if skip == nil {
			return invalid("skip is nil")
		}
		l.skip = skip
		return nil
	}
}

// WithObserver tells o of each decision. It may be given more than once.
func WithObserver(o Observer) Option {
	return func(l *Limiter) error {
		if o == nil {
			return invalid("observer is nil")
		}
		l.observers = append(l.observers, o)
		return nil
	}
}

// WithTimeout sets how long a decision waits for the store; the default is 50ms. After it, the failure modes of the
// rules decide.
func WithTimeout(d time.Duration) Option {
	return func(l *Limiter) error {
		if d <= 0 {
			return invalid("timeout must be positive, got %v", d)
		}
		l.timeout = d
		return nil
	}
}

// WithFallback sets the store that rules with FailLocal use while the store is down. The default is a MemoryStore.
func WithFallback(s Store) Option {
	return func(l *Limiter) error {
		if s == nil {
			return invalid("fallback is nil")
		}
		l.fallback = s
		return nil
	}
}

// Preflight reports whether r is a CORS preflight: OPTIONS with both Origin and Access-Control-Request-Method.
// It is meant for WithSkip. See https://fetch.spec.whatwg.org/#cors-preflight-request.
func Preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}
