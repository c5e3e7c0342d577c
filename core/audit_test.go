package core

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// audit compares what m counts with what it holds.
func (m *MemoryStore) audit(t *testing.T) {
	t.Helper()
	pairs := make(map[uint64]bool)
	for i := range m.shards {
		s := &m.shards[i]
		var records, common int
		var entries uint32
		for j := range s.records {
			r := &s.records[j]
			if r.id == 0 {
				continue
			}
			if records++; isCommon(r.id) {
				common++
			} else {
				pairs[r.id] = true
			}
			if s.find(r.id, r.kind|anyTick) != r {
				t.Errorf("shard %d: record %d is not found", i, j)
			}
			entries += s.ring(t, r.queue())
		}
		if records != s.count || common != s.common {
			t.Errorf("shard %d counts %d records, %d of them common; it has %d, %d", i, s.count, s.common, records, common)
		}
		if used := s.entries.used - uint32(len(s.entries.unused)); used != entries {
			t.Errorf("shard %d has %d entries in use, of which queues have %d", i, used, entries)
		}
	}
	if n := m.pairs.Load(); int(n) != len(pairs) || len(pairs) > m.MaxKeys {
		t.Errorf("the store counts %d pairs and has %d; at most %d may be", n, len(pairs), m.MaxKeys)
	}
}

// ring returns how many entries q has, whose counts are what q has used.
func (s *shard) ring(t *testing.T, q queue) (n uint32) {
	t.Helper()
	if q.newest == 0 {
		return 0
	}
	used := int64(0)
	for i := s.entries.at(q.newest).next; ; i = s.entries.at(i).next {
		n++
		used += s.entries.at(i).count
		if i == q.newest {
			break
		}
	}
	if used != q.used || s.entries.at(q.newest).stamp != q.last {
		t.Errorf("queue %+v: its entries count %d and end at %d", q, used, s.entries.at(q.newest).stamp)
	}
	return n
}

func TestTheBooksBalance(t *testing.T) {
	ctx := context.Background()
	limits := MustParseLimits("5/s, 5/s;fixed-window, 5/s;sliding-window, 5/s;sliding-log, 5/2s;sliding-log")
	synctest.Test(t, func(t *testing.T) {
		m := &MemoryStore{MaxKeys: 15}
		for round := range 1000 {
			var claims []Claim
			for range 1 + rand.IntN(3) {
				some := append([]Limit(nil), limits[rand.IntN(3):3+rand.IntN(3)]...)
				claims = append(claims, Claim{Key: strconv.Itoa(rand.IntN(60)), Limits: some, Cost: rand.IntN(4)})
			}
			results, err := m.Take(ctx, claims, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch rand.IntN(8) {
			case 0:
				for i := range claims {
					claims[i].At = results[0].At
				}
				err = m.Settle(ctx, claims)
			case 1:
				err = m.Reset(ctx, claims)
			case 2, 3:
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			}
			if err != nil {
				t.Fatal(err)
			}
			if m.audit(t); t.Failed() {
				t.Fatalf("after round %d, %+v", round, claims)
			}
		}
	})
}

// When there is room again, a pair that shared a state until then starts from that, and leaves it to the others.
func TestAPairTakesAlongWhatItShared(t *testing.T) {
	for _, limit := range []string{"5/m", "5/m;fixed-window", "5/m;sliding-window;buckets=60", "5/m;sliding-log"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &MemoryStore{MaxKeys: 1}
				take := func(key, limit string, cost int) Result {
					results, err := m.Take(context.Background(), []Claim{{Key: key, Limits: MustParseLimits(limit), Cost: cost}}, nil)
					if err != nil {
						t.Fatal(err)
					}
					return results[0]
				}
				m.once.Do(m.init)
				take(m.sweptLast(), "1/s", 1)
				mover, stayer := m.sharing()
				take(mover, limit, 2)
				time.Sleep(2 * time.Second)
				if got := take(mover, limit, 1).Remaining; got != 2 {
					t.Errorf("%d remain to the one that has a state of its own now, want 2", got)
				}
				m.audit(t)
				if got := take(stayer, limit, 3).Remaining; got != 0 {
					t.Errorf("%d remain to those that still share, want 0", got)
				}
				if got := take(mover, limit, 2); !got.Allowed || got.Remaining != 0 {
					t.Errorf("the others charged the one that has moved: %+v", got)
				}
				m.audit(t)
			})
		})
	}
}

func TestPairsThatShareAreChargedTogetherInOneRequest(t *testing.T) {
	for _, limit := range []string{"3/h", "3/h;fixed-window", "3/h;sliding-window", "3/h;sliding-log"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &MemoryStore{MaxKeys: 1}
				limits := MustParseLimits(limit)
				m.Take(context.Background(), []Claim{{Key: "live", Limits: limits}}, nil)
				a, b := m.sharing()
				both := []Claim{{Key: a, Limits: limits}, {Key: b, Limits: limits}}
				for range 3 {
					m.Take(context.Background(), both, nil)
				}
				m.audit(t)
				both[0].Peek = true
				results, err := m.Take(context.Background(), both[:1], nil)
				if err != nil || results[0].Remaining > 1 {
					t.Errorf("two were admitted together, and of 3 remain %d, error %v", results[0].Remaining, err)
				}
			})
		})
	}
}

// sharing returns two keys that share a state in a full store.
func (m *MemoryStore) sharing() (a, b string) {
	seen := make(map[uint64]string)
	for i := 0; ; i++ {
		key := strconv.Itoa(i)
		_, common := m.hash(&Claim{Key: key})
		if other, ok := seen[common]; ok {
			return other, key
		}
		seen[common] = key
	}
}

// sweptLast returns a key that a full store looks at last when it needs room.
func (m *MemoryStore) sweptLast() string {
	for i := 0; ; i++ {
		key := "brief" + strconv.Itoa(i)
		if id, _ := m.hash(&Claim{Key: key}); m.shard(id) == &m.shards[0] {
			return key
		}
	}
}
