package recipes

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

var errUnknownKey = errors.New("unknown API key")

// An account is what the database knows of an API key.
type account struct {
	ID     string
	Limits []core.Limit // empty: the limits of the rule
}

// accounts remembers for a minute what it has found in the database.
type accounts struct {
	find func(ctx context.Context, apiKey string) (account, error) // errUnknownKey if there is none

	mu    sync.Mutex
	known map[string]remembered
}

type remembered struct {
	account
	at time.Time
}

const maxKnown = 100_000 // accounts in memory

// get returns the account of an API key. While the database is down, it returns what it knew last.
func (a *accounts) get(ctx context.Context, apiKey string) (account, error) {
	a.mu.Lock()
	last, ok := a.known[apiKey]
	a.mu.Unlock()
	if ok && time.Since(last.at) < time.Minute {
		return last.account, nil
	}
	found, err := a.find(ctx, apiKey)
	switch {
	case errors.Is(err, errUnknownKey):
		a.mu.Lock()
		delete(a.known, apiKey) // the key was revoked
		a.mu.Unlock()
		return account{}, err
	case err != nil && ok:
		return last.account, nil
	case err != nil:
		return account{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= maxKnown {
		a.known = make(map[string]remembered)
	}
	a.known[apiKey] = remembered{found, time.Now()}
	return found, nil
}

type accountKey struct{}

func accountOf(r *http.Request) (account, bool) {
	a, ok := r.Context().Value(accountKey{}).(account)
	return a, ok
}

// authenticated responds to requests without a valid API key, and passes on the others with their account.
func (a *accounts) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := a.get(r.Context(), r.Header.Get("X-Api-Key"))
		switch {
		case errors.Is(err, errUnknownKey):
			http.Error(w, "unknown API key", http.StatusUnauthorized)
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, found)))
		}
	})
}

// byAccount limits addresses before the look-up and accounts after it.
func byAccount(a *accounts, ip core.KeyFunc, next http.Handler) (http.Handler, error) {
	addresses, err := core.New([]core.Rule{{Name: "address", Key: ip, Limits: []core.Limit{core.PerMinute(600)}}})
	if err != nil {
		return nil, err
	}
	limiter, err := core.New([]core.Rule{{
		Name: "account",
		Key: keyfunc.User(func(r *http.Request) (string, bool) {
			found, ok := accountOf(r)
			return found.ID, ok
		}),
		Limits: []core.Limit{core.PerMinute(60)},
		Tier: func(r *http.Request) []core.Limit {
			found, _ := accountOf(r)
			return found.Limits
		},
	}})
	if err != nil {
		return nil, err
	}
	return stdlib.New(addresses)(a.authenticated(stdlib.New(limiter)(next))), nil
}
