//go:build !unix

package main

import "os/exec"

// alone does nothing where there are no groups of processes.
func alone(*exec.Cmd) (end func()) { return func() {} }
