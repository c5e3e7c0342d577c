package testing

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
)

// countingStore stands for your store. It counts the calls of another store.
type countingStore struct {
	core.Store
	takes atomic.Int64
}

func (s *countingStore) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.takes.Add(1)
	return s.Store.Take(ctx, claims, dst)
}

func TestCountingStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(*testing.T) core.Store { return &countingStore{Store: new(core.MemoryStore)} },
	})
}
