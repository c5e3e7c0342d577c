package redisx

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
)

// A server runs the script. It is a single server, or all servers of a Redis Cluster or a Ring.
type server struct {
	client  redis.UniversalClient
	routing atomic.Uint32 // a routing, because the server may turn out to be a Redis Cluster
	script  *script
	maxRuns int           // runs of a queue in flight: half the connections that the client may have
	timeout time.Duration // of the client, for a new connection
	inline  bool          // the client ends calls at the deadline of their context
	running chan struct{} // has an element for each goroutine of within

	functions functions
	clock     testClock             // of the server
	repaired  atomic.Uint64         // invalid states found
	cause     atomic.Pointer[error] // why calls fail that may have been late only because the client tries again; nil after an answer
	reloads   pacer                 // of the state of the cluster
	warming   atomic.Bool           // warm is running
	begun     time.Time
	decided   sync.Once // the first decision
	first     sync.Once // the first call
}

// A testClock replaces a clock in tests, or is empty.
type testClock struct {
	atomic.Pointer[func() time.Time]
}

// micros returns the time in microseconds since 1970, or 0 if c is empty.
func (c *testClock) micros() int64 {
	if now := c.Load(); now != nil {
		return (*now)().UnixMicro()
	}
	return 0
}

// maxRunning bounds the goroutines that wait for a client which does not end calls at the deadline of their context.
const maxRunning = 4096

func newServer(client redis.UniversalClient) *server {
	s := &server{client: client, script: theScript, begun: time.Now(), running: make(chan struct{}, maxRunning)}
	pool := 0
	switch c := client.(type) { // an interface would match wrappers, which may do anything
	case *redis.Client:
		o := c.Options()
		pool, s.timeout, s.inline = o.PoolSize, o.DialTimeout, o.ContextTimeoutEnabled
	case *redis.ClusterClient:
		s.routing.Store(uint32(byIdentity))
		o := c.Options()
		pool, s.timeout, s.inline = o.PoolSize, o.DialTimeout, o.ContextTimeoutEnabled
	case *redis.Ring:
		s.routing.Store(uint32(byIdentity))
		o := c.Options()
		pool, s.timeout, s.inline = o.PoolSize, o.DialTimeout, o.ContextTimeoutEnabled
	}
	s.timeout = cmp.Or(s.timeout, 5*time.Second)                       // the default
	s.maxRuns = max(cmp.Or(pool, 10*runtime.GOMAXPROCS(0))/2, fewRuns) // likewise
	return s
}

// errLate is the error of a call that is late because this process is overloaded.
var errLate = fmt.Errorf("%w: %w", breaker.ErrTooMany, context.DeadlineExceeded)

// round waits for f, which calls the server. If ctx ends first, it returns ctx's error, or errLate if its deadline has
// passed before the call. If the client ends calls at the deadline of their context, the caller makes the call itself: nothing else
// ends the ctx of a run.
func (s *server) round(ctx context.Context, f func(context.Context) error) (err error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errLate
	}
	if !s.inline {
		return s.within(ctx, f)
	}
	err = f(ctx)
	if ends, ok := ctx.Deadline(); ok && err != nil && !isReply(err) && !errors.Is(err, context.DeadlineExceeded) && !time.Now().Before(ends) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// within runs f in a goroutine and returns its error. If ctx ends first, it returns ctx's error, and f may go on for as
// long as the timeouts of the client say, so the caller must not share with f what it uses afterwards.
func (s *server) within(ctx context.Context, f func(context.Context) error) error {
	select {
	case s.running <- struct{}{}:
	default:
		return breaker.ErrTooMany
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.running }()
		var err error
		defer func() {
			if v := recover(); v != nil {
				err = panicked(v)
			}
			done <- err
		}()
		err = f(ctx)
		s.noteCause(err)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// each runs f for 0 to n-1 at once, waits, and returns their errors.
func each(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { errs[i] = errLost; errs[i] = f(i) }) // f may end its goroutine
	}
	errs[0] = f(0)
	wg.Wait()
	return errs
}

// run does jobs in one run of the script. It sets the reply of each job, or returns the error of all.
func (s *server) run(ctx context.Context, jobs []*job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
		for _, j := range jobs {
			j.failure = err
		}
		if err != nil {
			s.noteError(err)
		}
	}()
	s.first.Do(s.warm)
	err = errLost // if a hook of the client ends this goroutine
	reply, err := s.call(ctx, jobs)
	if err != nil {
		return err
	}
	if s.cause.Load() != nil {
		s.cause.Store(nil)
	}
	return s.deliver(reply, jobs)
}

// noteCause records err, if that says why connections do not come up.
func (s *server) noteCause(err error) {
	if err != nil && !isReply(err) && !errors.Is(err, context.DeadlineExceeded) {
		s.cause.Store(&err)
	}
}

// withCause returns err and, if that is a deadline, why connections do not come up, if that is known.
func (s *server) withCause(err error) error {
	if cause := s.cause.Load(); cause != nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", err, *cause)
	}
	return err
}

// panicked returns the error for a panic of the client with value v.
func panicked(v any) error {
	return fmt.Errorf("%w: the Redis client panicked: %v", core.ErrInvalid, v)
}

// appendCall appends the words of a run of the script for jobs: the command, the name of a function or the digest of a script, the
// number of keys, the keys and the arguments: see lua/run.lua. A job without a plan has only keys. If now is not 0, jobs are decided at
// that instant.
func appendCall(words []any, now int64, jobs []*job) []any {
	words = append(slices.Grow(words, wordsOfOne+3*(len(jobs)-1)), "", "", 0)
	for _, j := range jobs {
		for _, key := range j.keys {
			words = append(words, key)
		}
	}
	words[2] = len(words) - 3
	var plan any
	for _, j := range jobs {
		switch own := j.plan; own {
		case nil:
		case plan:
			words = append(words, "", j.words)
		default:
			words, plan = append(words, own, j.words), own
		}
	}
	if now != 0 {
		words = append(words, now)
	}
	return words
}

// deliver gives each job its part of a script's reply, which consists of words: see lua/word.lua.
func (s *server) deliver(reply string, jobs []*job) error {
	const word = 8
	if len(reply) < 2*word || len(reply)%word != 0 {
		return fmt.Errorf("the script replied %q", reply)
	}
	left := reply
	next := func() int64 {
		n := binary.LittleEndian.Uint64([]byte(left[:word]))
		left = left[word:]
		return int64(n)
	}
	at := next()
	if n := next(); n > 0 {
		s.repaired.Add(uint64(n))
		slog.Warn("spillgate: stored states made no sense and count as used up", "states", n)
	}
	for _, j := range jobs {
		j.at, j.reply = at, j.reply[:0]
		for n := 1; len(left) > 0 && len(j.reply) < n; {
			if j.reply = append(j.reply, next()); len(j.reply) == 1 {
				n = j.lengthOf(j.reply)
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("the script replied %q, which is too much", reply)
	}
	return nil
}

// wordsOfOne is how many words a run for one job with one key has.
const wordsOfOne = 7

// A once is a command that go-redis sends at most once. If a reply is lost, a client sends other commands again, which
// would charge a decision twice. Versions before 9.19 do not call NoRetry. With these, the name of the function or
// script makes the second attempt fail.
type once struct {
	redis.StringCmd
	name onceName
	room [wordsOfOne]any // backs the words of a small run
}

// NoRetry reports true.
func (*once) NoRetry() bool { return true }

// SetErr implements redis.Cmder. If the error is a reply of the server, such as MOVED, the server has not run the
// command, and the client may send it to another one.
func (c *once) SetErr(err error) {
	if err != nil && isReply(err) {
		c.name.sent.Store(false)
	}
	c.StringCmd.SetErr(err)
}

// A onceName is a word of a command that a client can write once.
type onceName struct {
	text []byte
	sent atomic.Bool
}

var errLost = errors.New("there was no reply, or READONLY, LOADING or CLUSTERDOWN, and the command must not be sent again")

// MarshalBinary implements encoding.BinaryMarshaler. The client calls it when it writes the command.
func (n *onceName) MarshalBinary() ([]byte, error) {
	if n.sent.Swap(true) {
		return nil, errLost
	}
	return n.text, nil
}

// String implements fmt.Stringer, for hooks that log commands.
func (n *onceName) String() string { return string(n.text) }

// send does jobs by a command that runs the function or script called name, and returns the reply.
func (s *server) send(ctx context.Context, command any, name []byte, jobs []*job) (reply string, err error) {
	c := &once{name: onceName{text: name}}
	words := appendCall(c.room[:0], s.clock.micros(), jobs)
	words[0], words[1] = command, &c.name
	c.StringCmd = *redis.NewStringCmd(ctx, words...)
	c.SetFirstKeyPos(3) // older versions of go-redis do not know the place in an FCALL
	if err = s.round(ctx, func(ctx context.Context) error {
		_ = s.client.Process(ctx, c) // the command keeps the error
		return c.Err()
	}); err == nil {
		reply = c.Val() // otherwise c may still be in use
	}
	if text, _, quotes := strings.Cut(replyOf(err), ", with args beginning with"); quotes { // the words of the command: keys are personal data
		err = replyError(text)
	}
	return reply, err
}

// A replyError is the text of a server's error reply.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// isReply reports whether err is a server's error reply. Unless the script itself failed, the server did not run it.
func isReply(err error) bool { return replyOf(err) != "" }

// hasRun reports whether err is the reply of a script that failed while it ran, and may have done a part of what it was asked.
func hasRun(err error) bool { return strings.Contains(replyOf(err), "@user_") }

// hasCode reports whether err is a server's reply that begins with code.
func hasCode(err error, code string) bool { return strings.HasPrefix(replyOf(err), code) }

// isMigrating reports whether err says that the slot of some keys is migrating, so that no node has all of them. A client may end at ASK if
// it was redirected before it found a node that says so.
func isMigrating(err error) bool { return hasCode(err, "TRYAGAIN") || hasCode(err, "ASK") }

// replyOf returns the text of a server's error reply, or "" if err is none. Hooks of a client may wrap its errors.
func replyOf(err error) string {
	if reply, ok := breaker.As[redis.Error](err); ok {
		return reply.Error()
	}
	return ""
}

// reloadEvery is how often a store asks a client of a Redis Cluster to look for new masters.
const reloadEvery = 500 * time.Millisecond

// noteError makes a client of a Redis Cluster look for new masters, because a call has failed with err. On its own, the client
// does so once a minute. If the call got no reply, noteError brings up new connections.
func (s *server) noteError(err error) {
	if !isReply(err) {
		s.warm()
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok && s.reloads.due(s.age(), reloadEvery) {
		cluster.ReloadState(context.Background())
	}
}

// age returns the time since s began, by the monotonic clock: after the wall clock was set back, nothing would be due until it has
// caught up.
func (s *server) age() time.Duration { return time.Since(s.begun) }

// A pacer limits how often something is done. Its instants are times since some beginning.
type pacer struct{ next atomic.Int64 }

// due reports whether to do it now, and then not again for as long as every.
func (p *pacer) due(now, every time.Duration) bool {
	next := p.next.Load()
	return int64(now) >= next && p.next.CompareAndSwap(next, int64(now+every))
}

// warnOfEviction logs a warning if the server removes keys when its memory is full.
func (s *server) warnOfEviction() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	info := &once{StringCmd: *redis.NewStringCmd(ctx, "info", "memory")}
	if s.within(ctx, func(ctx context.Context) error { return s.client.Process(ctx, info) }) != nil { // which may panic
		return
	}
	_, policy, _ := strings.Cut(info.Val(), "maxmemory_policy:")
	policy, _, _ = strings.Cut(policy, "\r\n")
	if policy != "" && policy != "noeviction" {
		slog.Warn("spillgate: Redis may evict keys that still count; use noeviction", "maxmemory-policy", policy)
	}
}

// warm brings up connections in the background, under the client's own timeout, if the client ends calls at the deadline
// of their context. Otherwise a connection that takes longer than a decision may wait, because the server is far away or
// uses TLS, would never come up: each decision that needs it would end it at its own deadline. Without that option, the
// client goes on with a decision that nobody waits for any more, so its connections come up anyway.
//
// At first there is one attempt, so a server that is down gets no more than one at a time. If it succeeds, as many follow at
// once as a queue may have runs in flight. If a decision has found no library, warm loads it.
func (s *server) warm() {
	if !s.inline || !s.warming.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.warming.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		err := s.onAll(ctx, s.connect)
		s.noteCause(err)
		if err == nil && s.functions.missing.Load() {
			_ = s.within(ctx, s.loadLibrary)
		}
	}()
}

// connect brings up connections of a client. If none comes up, a client tries again for longer than a decision waits before it says why, so
// connect dials once by itself.
func (s *server) connect(ctx context.Context, client redis.UniversalClient) error {
	if c, ok := client.(*redis.Client); ok {
		if err := s.within(ctx, func(ctx context.Context) error {
			o := c.Options()
			conn, err := o.Dialer(ctx, o.Network, o.Addr)
			if err == nil {
				err = conn.Close()
			}
			return err
		}); err != nil {
			return err
		}
	}
	for _, n := range [...]int{1, s.maxRuns} {
		errs := each(n, func(int) error {
			err := s.within(ctx, func(ctx context.Context) error { return client.Time(ctx).Err() })
			if isReply(err) { // the user may not ask for the time, but is connected
				return nil
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}
