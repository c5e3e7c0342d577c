//go:build unix

package main

import (
	"syscall"
	"time"
)

// processor returns a clock of the processor time of this process, over all cores.
func processor() clock {
	return func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
}
