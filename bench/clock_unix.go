//go:build unix

package main

import (
	"syscall"
	"time"
)

// processor returns a clock that runs while this process does, once for each core that it has.
func processor() clock {
	return func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
}
