package redisx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A once is a command that go-redis sends at most once. If a reply is lost, a client sends other commands again, which
// would charge a decision twice. Versions before 9.19 do not call NoRetry. With these, the name of the function or
// script makes the second attempt fail.
type once struct {
	*redis.StringCmd
	name *onceName
}

// NoRetry reports true.
func (once) NoRetry() bool { return true }

// SetErr implements redis.Cmder. If the error is a reply of the server, such as MOVED, the server has not run the
// command, and the client may send it to another one.
func (c once) SetErr(err error) {
	if _, replied := errors.AsType[redis.Error](err); replied {
		c.name.sent.Store(false)
	}
	c.StringCmd.SetErr(err)
}

// A onceName is a word of a command that a client can write once.
type onceName struct {
	text string
	sent atomic.Bool
}

var errLost = errors.New("there was no reply, or READONLY, LOADING or CLUSTERDOWN, and the command must not be sent again")

// MarshalBinary implements encoding.BinaryMarshaler. The client calls it when it writes the command.
func (n *onceName) MarshalBinary() ([]byte, error) {
	if n.sent.Swap(true) {
		return nil, errLost
	}
	return []byte(n.text), nil
}

// String implements fmt.Stringer, for hooks that log commands.
func (n *onceName) String() string { return n.text }

// An onceText is a once for other commands than a run of the script.
type onceText struct{ *redis.StringCmd }

// NoRetry reports true.
func (onceText) NoRetry() bool { return true }

// A call is one run of the script: the command, the name of a function or the digest of a script, the number of keys,
// the keys and the arguments.
type call struct {
	words []any
	sent  bool // at least once
}

// newCall returns a call with room for words keys and arguments.
func newCall(words int) *call { return &call{words: append(make([]any, 0, 3+words), "", "", 0)} }

// addKeys adds keys. No argument may be added before.
func (c *call) addKeys(keys []string) {
	for _, key := range keys {
		c.words = append(c.words, key)
	}
	c.words[2] = len(c.words) - 3
}

func (c *call) add(arg any) { c.words = append(c.words, arg) }

// send sends c as a command that runs the function or script called name, and returns the reply.
func (c *call) send(ctx context.Context, client redis.UniversalClient, command, name string) ([]int64, error) {
	words := c.words
	if c.sent {
		words = slices.Clone(words) // a client may still read the words of an earlier attempt
	}
	c.sent = true
	once := once{name: &onceName{text: name}}
	words[0], words[1] = command, once.name
	once.StringCmd = redis.NewStringCmd(ctx, words...)
	once.SetFirstKeyPos(3)        // older versions of go-redis do not know the place in an FCALL
	_ = client.Process(ctx, once) // the command keeps the error
	text, err := once.Result()
	if err != nil {
		return nil, err
	}
	return wordsOf(text)
}

// sendScript sends c with the digest of the script, or with its source to a server that does not have the script.
func (c *call) sendScript(ctx context.Context, client redis.UniversalClient, script *script) ([]int64, error) {
	reply, err := c.send(ctx, client, "evalsha", script.sha)
	if hasCode(err, "NOSCRIPT") {
		reply, err = c.send(ctx, client, "eval", script.source)
	}
	return reply, err
}

// wordsOf returns the words of a reply: see lua/word.lua.
func wordsOf(text string) ([]int64, error) {
	const word = 8
	if len(text)%word != 0 {
		return nil, fmt.Errorf("the script replied %d bytes", len(text))
	}
	words := make([]int64, 0, len(text)/word)
	for ; len(text) > 0; text = text[word:] {
		words = append(words, int64(binary.LittleEndian.Uint64([]byte(text[:word]))))
	}
	return words, nil
}

// isNotFound reports whether err says that a server does not have the library.
func isNotFound(err error) bool { return hasCode(err, "ERR Function not found") }

// isUnavailable reports whether err says that a server has no functions, or that its user may not use them.
func isUnavailable(err error) bool { return hasCode(err, "ERR unknown") || hasCode(err, "NOPERM") }

// isReply reports whether err is a server's error reply, which means that the server did not run the command.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// hasCode reports whether err is a server's reply that begins with code.
func hasCode(err error, code string) bool {
	return err != nil && strings.HasPrefix(err.Error(), code)
}
