// Package faults makes real faults happen to a real Redis, and checks that limiters keep enforcing. The clients are those
// of go-redis with the default options.
package faults

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	goleak.VerifyTestMain(m)
}

// silence drops what go-redis logs of faults that tests make.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
