package main

import "time"

// A clock returns the time since some instant of its own.
type clock func() time.Duration

// elapsed returns a clock of elapsed time.
func elapsed() clock {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
