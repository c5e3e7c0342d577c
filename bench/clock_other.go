//go:build !unix

package main

// processor returns a clock that runs always: this system does not report processor time.
func processor() clock { return elapsed() }
