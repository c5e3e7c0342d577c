// Package peers wraps each library that bench compares, and each baseline, in a function of the same kind.
package peers

import (
	"context"
	"strconv"
	"time"
)

// A Limit is enforced by every contestant: Rate requests per Period, all of which may come at once.
type Limit struct {
	Rate   int
	Period time.Duration
}

// perSecond returns the rate that the token buckets of golang.org/x/time/rate count in.
func (l Limit) perSecond() float64 { return float64(l.Rate) / l.Period.Seconds() }

// A Take charges key for one request and reports whether it is admitted. It is for one goroutine: it may reuse buffers.
type Take func(key string) bool

// A Store is the state of one library, or a baseline.
type Store struct {
	Name   string
	Worker func() Take      // returns a Take of its own for a goroutine
	Fill   func(key string) // makes the store remember key for a while; nil: a Take does
	Close  func()           // nil if there is nothing to stop
}

// Keys fills s with n keys, each a string of its own as a server would parse it.
func (s *Store) Keys(n int) {
	fill := s.Fill
	if fill == nil {
		take := s.Worker()
		fill = func(key string) { take(key) }
	}
	for i := range n {
		fill(Key(i))
	}
}

// Stop closes s.
func (s *Store) Stop() {
	if s.Close != nil {
		s.Close()
	}
}

// Key returns the i-th key.
func Key(i int) string { return string(AppendKey(nil, i)) }

// AppendKey appends the i-th key to buf.
func AppendKey(buf []byte, i int) []byte {
	return strconv.AppendInt(append(buf, "user:"...), int64(i), 10)
}

// shared returns a store whose Take needs no buffers.
func shared(name string, take Take) *Store {
	return &Store{Name: name, Worker: func() Take { return take }}
}

var background = context.Background()

// must panics on an error of a constructor whose arguments are constants of this program.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
