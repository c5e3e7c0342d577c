package redisx

import (
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
	"github.com/spillgate/spillgate/internal/deadline"
)

// A server runs the script. It is a single server, or all servers of a Redis Cluster or a Ring.
type server struct {
	client  redis.UniversalClient
	script  *script
	maxRuns int           // runs of a queue in flight: half the connections that the client may have
	timeout time.Duration // of the client, for a new connection
	inline  bool          // the client ends calls at the deadline of their context
	running chan struct{} // has an element for each goroutine of within

	functions functions
	clock     testClock     // of the server
	repaired  atomic.Uint64 // invalid states found
	reloads   reloads       // of the state of the cluster
	warming   atomic.Bool   // warm is running
	begun     time.Time
	decided   sync.Once // the first decision
	first     sync.Once // the first call
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
		o := c.Options()
		pool, s.timeout, s.inline = o.PoolSize, o.DialTimeout, o.ContextTimeoutEnabled
	case *redis.Ring:
		o := c.Options()
		pool, s.timeout, s.inline = o.PoolSize, o.DialTimeout, o.ContextTimeoutEnabled
	}
	if pool == 0 {
		pool = 10 * runtime.GOMAXPROCS(0) // the default
	}
	if s.timeout == 0 {
		s.timeout = 5 * time.Second // the default
	}
	s.maxRuns = max(pool/2, fewRuns)
	return s
}

// errLate is the error of a call that is late because this process is overloaded.
var errLate = fmt.Errorf("%w: %w", breaker.ErrTooMany, context.DeadlineExceeded)

// round waits for f, which calls the server. If ctx ends first, it returns ctx's error, or errLate if its deadline has
// passed before the call. If the client ends calls at the deadline of their context, and nothing else ends ctx, the caller
// makes the call itself: a client does not notice that a context is canceled.
func (s *server) round(ctx context.Context, f func(context.Context) error) (err error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errLate
	}
	if !s.inline || !deadline.Alone(ctx) {
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
		growStack(1)
		err = f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// growStack grows the stack of a new goroutine in one step to the size that a client needs. Otherwise it grows in
// several steps, each of which copies the frames so far.
//
//go:noinline
func growStack(n int) byte {
	var room [4 << 10]byte
	return room[n%len(room)]
}

// runAll does jobs in one run of the script, or each job in a run of its own if that is what the server needs. It reports
// whether the server needs runs for the keys of one slot each.
func (s *server) runAll(ctx context.Context, jobs []*job) (bySlot bool) {
	err := s.run(ctx, jobs)
	if bySlot = hasCode(err, "CROSSSLOT"); len(jobs) > 1 && (bySlot || hasCode(err, "TRYAGAIN")) {
		each(len(jobs), func(i int) { _ = s.run(ctx, jobs[i:i+1]) })
	}
	return bySlot && len(jobs) > 1
}

// each runs f for 0 to n-1 at once and waits.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { f(i) })
	}
	f(0)
	wg.Wait()
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
		s.noteError(err)
	}()
	s.first.Do(s.warm)
	c := callOf(s.clock.micros(), jobs)
	reply, err := s.call(ctx, c)
	if err != nil {
		return err
	}
	return s.deliver(reply, jobs)
}

// panicked returns the error for a panic of the client with value v.
func panicked(v any) error {
	return fmt.Errorf("%w: the Redis client panicked: %v", core.ErrInvalid, v)
}

// reset resets one pair, because in a slot that is migrating, the server returns an error for a script with several
// keys.
func (s *server) reset(ctx context.Context, key string) error {
	_, err := s.call(ctx, callOf(s.clock.micros(), []*job{{keys: []string{key}, plan: resetPlan, words: resetWords}}))
	s.noteError(err)
	return err
}

// callOf returns the call for jobs: see lua/run.lua. If now is not 0, they are decided at that instant.
func callOf(now int64, jobs []*job) *call {
	c := newCall(3*len(jobs) + 1)
	for _, j := range jobs {
		c.addKeys(j.keys)
	}
	plan := ""
	for _, j := range jobs {
		if j.plan == plan {
			c.add("")
		} else {
			c.add(j.plan)
		}
		c.add(j.words)
		plan = j.plan
	}
	if now != 0 {
		c.add(now)
	}
	return c
}

// deliver gives each job its part of a script's reply.
func (s *server) deliver(reply []int64, jobs []*job) error {
	all := reply
	if len(reply) < 2 {
		return fmt.Errorf("the script replied %d", all)
	}
	s.countRepairs(reply[1])
	at, reply := reply[0], reply[2:]
	for _, j := range jobs {
		n := min(j.lengthOf(reply), len(reply))
		j.at, j.reply, reply = at, reply[:n], reply[n:]
	}
	if len(reply) > 0 {
		return fmt.Errorf("the script replied %d, which is too much", all)
	}
	return nil
}

// countRepairs counts and logs the states that a script has replaced.
func (s *server) countRepairs(n int64) {
	if n > 0 {
		s.repaired.Add(uint64(n))
		slog.Warn("spillgate: stored states made no sense and count as used up", "states", n)
	}
}

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
	if isReply(err) {
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
func (s *server) send(ctx context.Context, c *call, command, name string) ([]int64, error) {
	words := c.words
	if c.sent {
		words = slices.Clone(words) // a client may still read the words of an earlier attempt
	}
	c.sent = true
	once := once{name: &onceName{text: name}}
	words[0], words[1] = command, once.name
	once.StringCmd = redis.NewStringCmd(ctx, words...)
	once.SetFirstKeyPos(3) // older versions of go-redis do not know the place in an FCALL
	err := s.round(ctx, func(ctx context.Context) error {
		_ = s.client.Process(ctx, once) // the command keeps the error
		return once.Err()
	})
	if err != nil {
		return nil, err
	}
	return wordsOf(once.Val())
}

// sendScript sends c with the digest of the script, or with its source to a server that does not have the script.
func (s *server) sendScript(ctx context.Context, c *call) ([]int64, error) {
	reply, err := s.send(ctx, c, "evalsha", s.script.sha)
	if hasCode(err, "NOSCRIPT") {
		reply, err = s.send(ctx, c, "eval", s.script.source)
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

// isReply reports whether err is a server's error reply. Unless the script itself failed, the server did not run it.
func isReply(err error) bool { return replyOf(err) != "" }

// hasCode reports whether err is a server's reply that begins with code.
func hasCode(err error, code string) bool { return strings.HasPrefix(replyOf(err), code) }

// replyOf returns the text of a server's error reply, or "" if err is none. Hooks of a client may wrap its errors.
func replyOf(err error) string {
	var reply redis.Error
	if errors.As(err, &reply) {
		return reply.Error()
	}
	return ""
}

// reloadEvery is how often a store asks a client of a Redis Cluster to look for new masters.
const reloadEvery = 500 * time.Millisecond

// noteError makes a client of a Redis Cluster look for new masters if err is an error. On its own, the client does so
// once a minute. If the call got no reply, noteError brings up new connections.
func (s *server) noteError(err error) {
	if err != nil && !isReply(err) {
		s.warm()
	}
	cluster, ok := s.client.(*redis.ClusterClient)
	if err == nil || !ok {
		return
	}
	if s.reloads.due(time.Since(s.begun)) {
		cluster.ReloadState(context.Background())
	}
}

// reloads limits how often something is done. It uses the monotonic clock, because after the wall clock was set back,
// nothing would be done until it has caught up.
type reloads struct{ next atomic.Int64 }

// due reports whether to do it now, an instant since some beginning.
func (r *reloads) due(now time.Duration) bool {
	next := r.next.Load()
	return int64(now) >= next && r.next.CompareAndSwap(next, int64(now+reloadEvery))
}

// warnOnce calls warnOfEviction once, without waiting for it.
func (s *server) warnOnce() { s.decided.Do(func() { go s.warnOfEviction() }) }

// warnOfEviction logs a warning if the server removes keys when its memory is full.
func (s *server) warnOfEviction() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	info := onceText{redis.NewStringCmd(ctx, "info", "memory")}
	if s.client.Process(ctx, info) != nil {
		return
	}
	_, policy, _ := strings.Cut(info.Val(), "maxmemory_policy:")
	policy, _, _ = strings.Cut(policy, "\r\n")
	if policy != "" && policy != "noeviction" {
		slog.Warn("spillgate: Redis may evict keys that still count; use noeviction", "maxmemory-policy", policy)
	}
}
