package redisstore

import "time"

// SetClock replaces the clocks of the server and of this process.
func (s *Store) SetClock(now func() time.Time) { s.redis.SetClock(now) }
