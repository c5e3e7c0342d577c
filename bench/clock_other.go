//go:build !unix

package main

// processor returns a clock of elapsed time, because this system does not report processor time.
func processor() clock { return elapsed() }
