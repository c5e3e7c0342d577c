package redisx

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
)

// An anyState compares requests of the pair k with those of the pair o, which come in company of a peek and so are never plain.
type anyState struct {
	t      *testing.T
	server *miniredis.Miniredis
	store  *Store
}

const anyField = "b60000000"

func (a *anyState) keyOf(key string) string { return string(a.store.layout.appendKey(nil, "", key)) }

// stored returns the bucket of a pair without its first word, the expiry.
func (a *anyState) stored(key string) string {
	value := a.server.HGet(a.keyOf(key), anyField)
	return value[min(len(value), 8):]
}

// try decides a request that finds these fields, with a lease and without.
func (a *anyState) try(fields ...string) {
	a.t.Helper()
	peek := core.Claim{Key: "x", Limits: core.MustParseLimits("10/m"), Peek: true}
	for _, want := range []int64{-1, 10, 30} { // 24 is half of what may remain
		a.server.FlushAll()
		for _, key := range []string{"k", "o"} {
			a.server.HSet(a.keyOf(key), fields...)
		}
		c := core.Claim{Key: "k", Limits: core.MustParseLimits("50/m"), Cost: 1}
		alone := leasedPair(a.t, a.store, want, backs{}, false, c)
		c.Key = "o"
		other := leasedPair(a.t, a.store, want, backs{}, false, c, peek)
		if alone.usages[0] != other.usages[0] || !slices.Equal(alone.request.leases, other.request.leases) {
			a.t.Errorf("%x, ahead %d:\n got %+v, %+v\nwant %+v, %+v", fields, want, alone.usages[0], alone.request.leases, other.usages[0], other.request.leases)
		}
		if a.stored("k") != a.stored("o") {
			a.t.Errorf("%x, ahead %d:\nstored %x\n  want %x", fields, want, a.stored("k"), a.stored("o"))
		}
	}
}

// TestRequestsReadAnyLeasedBucketLikeOthers checks what requests alone, leased and not, do with a bucket that has drained and may have a
// low: its state may be corrupt, from the future, of another rate or of another size, and the pair may have other fields.
func TestRequestsReadAnyLeasedBucketLikeOthers(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	server := miniredis.RunT(t)
	server.SetTime(start)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	a, now := &anyState{t, server, New(client, Options{Prefix: "p"})}, uint64(start.UnixMicro())
	words := func(numbers ...uint64) string {
		var b []byte
		for _, n := range numbers {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		return string(b)
	}
	const drained = 50_000_000 // in the second since the bucket was charged
	good := []uint64{now/1000 + 100_000, drained, now - 1_000_000, now - 2_000_000, 50, 0, now - 1_000_000, 20_000_000}
	values := []uint64{0, 1, drained - 1, drained, drained + 1, 2 * drained, now - 1, now, now + 1, 1 << 53, 1<<53 + 2}
	for _, level := range []uint64{drained, drained + 90_000_000} {
		good[1] = level
		for i := range good {
			for _, v := range append(values, good[i]-1, good[i]+1) {
				bad := slices.Clone(good)
				bad[i] = v
				a.try(anyField, words(bad...))
				a.try(anyField, words(bad[:6]...))
			}
		}
		for size := range len(good) + 1 {
			a.try(anyField, words(good[:size]...))
		}
		a.try(anyField, words(append(good, now, 30_000_000)...))
		a.try(anyField, words(good...), "ban", words(now/1000+100_000, now+30_000_000))
		a.try(anyField, words(good[:6]...), "hold", words(now/1000+70_000, 3, 1, now-now%6_000_000, 3, 1))
	}
	a.try("ban", words(now/1000+100_000, now+30_000_000))
}

// Leased requests that run together each get what they asked for ahead.
func TestLeasedRequestsOfARunAreAnsweredApart(t *testing.T) {
	s := frozenStore(t)
	one := core.Claim{Key: "a", Limits: core.MustParseLimits("50/m"), Cost: 1}
	two := core.Claim{Key: "b", Limits: core.MustParseLimits("60/m"), Cost: 3}
	first, second := s.leasedJob(t, one, 10, backs{}), s.leasedJob(t, two, 4, backs{})
	s.mustRun(t, first, second)
	for i, j := range []*job{first, second} {
		ahead, remaining := []int64{10, 4}[i], []int64{49, 57}[i]
		if got := j.request.leases[0].granted; got != ahead || !j.admitted() {
			t.Errorf("request %d: %d charged ahead, want %d: %+v", i, got, ahead, j.usages)
		}
		if got := s.remains(t, []core.Claim{one, two}[i]); got != remaining-ahead {
			t.Errorf("request %d: %d remain, want %d", i, got, remaining-ahead)
		}
	}
}
