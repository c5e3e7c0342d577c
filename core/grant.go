package core

import (
	"slices"
	"sync"
	"time"
)

// A Granted is a grant that a limiter has made.
type Granted struct {
	Rule, Key string
	Requests  int       // the n of Limiter.Grant: added, or taken away if negative
	At        time.Time // by this process's clock
}

// Grants are the grants that a limiter has made since it was created. They do not include the grants of other processes.
type Grants struct {
	Made map[string]uint64 // how many, by rule
	Last []Granted         // at most 100, the newest first
}

// keptGrants is how many grants a limiter remembers.
const keptGrants = 100

// grants remembers the grants of a limiter.
type grants struct {
	mu   sync.Mutex
	made map[string]uint64 // bounded by the names of rules
	last []Granted         // the oldest first
}

func (s *grants) add(g Granted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = make(map[string]uint64)
	}
	s.made[g.Rule]++
	if len(s.last) == keptGrants {
		s.last = slices.Delete(s.last, 0, 1)
	}
	s.last = append(s.last, g)
}
