package redisx

import (
	"context"
	"slices"
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

// A call is one run of a script: EVALSHA, its digest, the number of keys, the keys and the arguments.
type call struct {
	script *script
	words  []any
}

// newCall returns a call that is likely to have so many keys and arguments.
func newCall(s *script, words int) *call {
	return &call{script: s, words: append(make([]any, 0, 3+words), "evalsha", s.sha, 0)}
}

// addKeys adds keys. No argument may be added before.
func (c *call) addKeys(keys []string) {
	for _, key := range keys {
		c.words = append(c.words, key)
	}
	c.words[2] = len(c.words) - 3
}

func (c *call) add(arg any) { c.words = append(c.words, arg) }

// run has client run c and returns the reply. A server that does not know the script has not run it: that error alone
// leads to another attempt, with the source.
func (c *call) run(ctx context.Context, client redis.UniversalClient) ([]int64, error) {
	cmd := once{redis.NewIntSliceCmd(ctx, c.words...)}
	_ = client.Process(ctx, cmd) // the command keeps the error
	reply, err := cmd.Result()
	if hasCode(err, "NOSCRIPT") {
		words := slices.Clone(c.words)
		words[0], words[1] = "eval", c.script.source
		cmd = once{redis.NewIntSliceCmd(ctx, words...)}
		_ = client.Process(ctx, cmd)
		reply, err = cmd.Result()
	}
	return reply, err
}

// hasCode reports whether err is a server's reply that begins with code.
func hasCode(err error, code string) bool {
	return err != nil && strings.HasPrefix(err.Error(), code)
}
