package memory

import (
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

const (
	shardBits = 6
	shards    = 1 << shardBits // so that a set of shards is one uint64
)

// A Store keeps the states of pairs of rule and key. It is safe for concurrent use.
type Store struct {
	clock
	maxKeys int64
	pairs   atomic.Int64  // with records of their own
	hand    atomic.Uint64 // the shard that sweepNext looked at last
	ends    [shards]atomic.Int64
	shards  [shards]shard
}

// New returns a store in which at most maxKeys pairs have records of their own. Now replaces the clock of the machine, unless
// it is nil.
func New(maxKeys int, now func() time.Time) *Store {
	s := &Store{maxKeys: int64(maxKeys)}
	s.begin(now)
	for i := range s.shards {
		s.shards[i].room.store = s
		s.shards[i].begin(&s.ends[i])
	}
	return s
}

// A Rule is the hash of the name of a rule. All stores hash with one seed, so that a limiter hashes each name only once.
type Rule uint64

var seed = maphash.MakeSeed()

// RuleOf returns the rule of a name.
func RuleOf(name string) Rule { return Rule(maphash.String(seed, name)) }

// A Pair identifies a rule and a key. The probability of confusing two pairs is 2^-64.
type Pair struct {
	id     uint64
	shared uint64 // of the records that the pair shares when the store is full
}

// shard returns the number of the shard that has the records of p.
func (p Pair) shard() uint64 { return p.id >> (64 - shardBits) }

// Pair returns the pair of r and a key. It shares one of 4,096 records of the rule and kind, in its own shard. Bits 12 to
// 51 of the id of shared records are 0.
func (r Rule) Pair(key string) Pair {
	id := maphash.String(seed, key)*31 + uint64(r) // multiplied, so that the names of rule and key do not commute
	return Pair{id: id, shared: id&^(1<<52-1) | uint64(r)>>52 | 1}
}

// isShared reports whether id is one that pairs share.
func isShared(id uint64) bool { return id<<12>>24 == 0 }

// An Op is what is asked of a pair in one call. The store sets At of a hold that it renews.
type Op struct {
	Pair    Pair
	Limits  []algorithm.Limit // compiled, valid and of different kinds; they never change
	Cost    int64             // of the request: 0 means 1, and more than algorithm.MaxExact means that
	MaxWait int64             // Take, Peek: microseconds that the request may wait for its turn; Limits are token buckets then
	At      int64             // Adjust, Release, Renew: the instant of the Take, or of the last renewal, or NoInstant
	Turn    int64             // Adjust: the turn of a request that could wait, or algorithm.NoTurn
	N       int64             // Adjust, Release: the final cost. Grant: requests to add. Ban: microseconds
	Kind    Kind
	DryRun  bool // never deny, and charge only what fits

	work // of the call
}

// A Kind says what an Op does.
type Kind uint8

const (
	Take    Kind = iota // charge Cost if all ops of the call admit it
	Peek                // decide for Cost, charge nothing
	Hold                // hold Cost instead of charging it
	Adjust              // make N of what Take has charged
	Release             // charge N instead of what is held
	Renew               // keep what is held
	Ban                 // let nothing of the pair fit for N microseconds
	Grant               // add N requests, or take them away
	Reset               // forget what was charged and granted, and bans, but not what is held
)

// NoInstant is the At of an Op whose Take another store has decided.
const NoInstant = -1 << 63

// ErrFull means that a sliding log cannot hold what is granted: at most algorithm.MaxMembers, its rate and grants together.
var ErrFull = errors.New("a sliding log is full")

// An Answer is the result of one limit of an Op that is decided.
type Answer struct {
	Retry int64 // 0 if the limit admits the cost; else microseconds until it does, or algorithm.Never
	Wait  int64 // microseconds until the turn of a request that is admitted
	Usage algorithm.Usage
}

// Do does all ops at one instant, which it returns. Takes, peeks and holds are decided together: if one that is not a dry
// run is denied, none is charged. Each of their limits gets an answer, in order. Other ops need a call of their own, which does
// them one after the other. If Do returns ErrFull, it has done nothing.
func (s *Store) Do(ops []Op, answers []Answer) (at int64, err error) {
	if len(ops) == 0 {
		return NoInstant, nil
	}
	c := call{ops: ops}
	defer c.close() // also if the clock of the caller panics
	c.open(s)
	if ops[0].Kind <= Hold {
		c.take(answers)
	} else {
		err = c.settleAll()
	}
	if c.placed || ops[0].Kind > Hold {
		for i := range ops { // their records may be idle earlier now
			o := &ops[i]
			o.shard.noteEnds(o.Pair.id)
			o.shard.noteEnds(o.Pair.shared)
		}
	}
	return c.now, err
}

// Stats returns how many pairs have records of their own, how many records are shared, and how many holds there are.
func (s *Store) Stats() (keys, shared, held int) {
	for i := range s.shards {
		now, _ := s.read()
		sh := &s.shards[i]
		sh.Lock()
		shared += sh.shared
		held += sh.heldAt(now)
		sh.Unlock()
	}
	return int(s.pairs.Load()), shared, held
}
