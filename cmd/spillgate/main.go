// Command spillgate shows the limiters of this module at work. Its exit code is 0 on success, 1 when something failed and
// 2 when the command line is wrong.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt does not wait for the shutdown
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
