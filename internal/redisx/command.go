package redisx

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A once is a command that go-redis sends at most once: a client repeats others when a reply is lost, and a decision
// would be charged again.
type once struct{ *redis.IntSliceCmd }

// NoRetry reports true.
func (once) NoRetry() bool { return true }

// An onceText is a once whose reply is text.
type onceText struct{ *redis.StringCmd }

// NoRetry reports true.
func (onceText) NoRetry() bool { return true }

// A call is one run of a script.
type call struct {
	script *script
	keys   []string
	args   []string
}

// command returns c as EVALSHA, or as EVAL with the source.
func (c *call) command(ctx context.Context, bySource bool) once {
	args := make([]any, 3, 3+len(c.keys)+len(c.args))
	args[0], args[1], args[2] = "evalsha", c.script.sha, len(c.keys)
	if bySource {
		args[0], args[1] = "eval", c.script.source
	}
	for _, key := range c.keys {
		args = append(args, key)
	}
	for _, arg := range c.args {
		args = append(args, arg)
	}
	return once{redis.NewIntSliceCmd(ctx, args...)}
}

// run has client run c and returns the reply. A server that does not know the script has not run it: that error alone
// leads to another attempt.
func (c *call) run(ctx context.Context, client redis.UniversalClient) ([]int64, error) {
	cmd := c.command(ctx, false)
	_ = client.Process(ctx, cmd) // the command keeps the error
	reply, err := cmd.Result()
	if hasCode(err, "NOSCRIPT") {
		cmd = c.command(ctx, true)
		_ = client.Process(ctx, cmd)
		reply, err = cmd.Result()
	}
	return reply, err
}

// hasCode reports whether err is a server's reply that begins with code.
func hasCode(err error, code string) bool {
	return err != nil && strings.HasPrefix(err.Error(), code)
}
