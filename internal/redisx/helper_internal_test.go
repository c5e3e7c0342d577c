package redisx

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// jobOf returns the job of a request, ready to be run.
func (s *Store) jobOf(t must.T, claims ...core.Claim) *job {
	j := must.Get(s.decider.layout.newTake(claims))(t)
	j.prepare(false)
	return j
}

// stopped is a clock that does not go.
func stopped() time.Time { return time.Unix(1_800_000_000, 0) }

func frozenStore(t *testing.T) *Store {
	client := redistest.NewClient(t, &redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute})
	s := New(client, Options{Prefix: "p"})
	s.SetClock(stopped)
	t.Cleanup(s.leases.Stop)
	return s
}

func textOf(words []int64) string {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, uint64(w))
	}
	return string(b)
}
