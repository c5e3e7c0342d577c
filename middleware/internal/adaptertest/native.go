package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	codes "github.com/spillgate/spillgate/middleware/internal/call"
)

// A Native is an adapter for a server of gRPC that is not an http.Handler.
type Native struct {
	// Serve serves a method behind the guards, the first outermost. handle returns the code of the call. A call whose handler
	// panics ends with code 13. call calls the method, and returns when the server has ended the call.
	Serve func(t *testing.T, guards []Guard, handle func(context.Context) (code int)) (call func(context.Context) NativeReply)

	Size int64 // of the response to a successful call, in bytes
}

// A NativeReply is what the client of a call gets.
type NativeReply struct {
	Code            int
	Message         string
	Details         []string // each is the name of the type, a space and the protobuf
	Header, Trailer http.Header
	TrailersOnly    bool // there is one HEADERS frame
}

// native are the parts of the contract for adapters without HTTP.
var native = []struct {
	name string
	run  func(Native, *testing.T)
}{
	{"denial", Native.testDenial},
	{"failure", Native.testFailure},
	{"handlers", Native.testHandlers},
	{"failure modes", Native.testFailureModes},
	{"headers", Native.testHeaders},
	{"headers of failed calls", Native.testFailedHeaders},
	{"writers", Native.testWriters},
	{"count", Native.testCount},
	{"outcome", Native.testOutcome},
	{"client gone", Native.testClientGone},
	{"SetCost", Native.testSetCost},
	{"two limiters", Native.testTwoLimiters},
	{"mounted twice", Native.testMountedTwice},
	{"nested", Native.testNested},
	{"at once", Native.testAtOnce},
	{"waiting", Native.testWaiting},
	{"waiting client gone", Native.testWaitingClientGone},
	{"waiting within a deadline", Native.testWaitingWithinADeadline},
}

// RunNative checks an adapter that is not an HTTP middleware.
func RunNative(t *testing.T, n Native) {
	for _, part := range native {
		t.Run(part.name, func(t *testing.T) { part.run(n, t) })
	}
}

func succeed(context.Context) int { return 0 }

// once calls a method that passes the guards.
func (n Native) once(t *testing.T, handle func(context.Context) int, guards ...Guard) NativeReply {
	t.Helper()
	return n.Serve(t, guards, handle)(t.Context())
}

func mustNotRun(t *testing.T) func(context.Context) int {
	return func(context.Context) int {
		t.Error("the handler ran")
		return 0
	}
}

func limiting(all ...http.Header) reply {
	h := make(http.Header)
	for _, one := range all {
		for name, values := range one {
			h[name] = append(h[name], values...)
		}
	}
	return reply{Response: &http.Response{Header: h}}
}

// wantFields checks that r has exactly these rate limit fields.
func (r NativeReply) wantFields(t *testing.T, want ...string) {
	t.Helper()
	limiting(r.Header, r.Trailer).wantLimiting(t, want...)
}

func (r NativeReply) wantCallDenial(t *testing.T, want callDenial) {
	t.Helper()
	all := fmt.Sprint(r)
	expect.True(t, !strings.Contains(all, secret) && !strings.Contains(all, "spillgate"), "the reply reveals internals: %s", all)
	expect.True(t, r.Code == want.code && r.Message != "" && slices.Equal(r.Details, want.details) && r.TrailersOnly,
		"got %+v, want %+v, trailers only", r, want)
	got := r.Trailer["Grpc-Retry-Pushback-Ms"]
	expect.True(t, slices.Equal(got, []string{want.pushback}), "pushback %q, want %q", got, want.pushback)
	expect.Equal(t, r.Trailer.Get("Cache-Control"), "", "Cache-Control, which trailers must not have")
}

func (n Native) testDenial(t *testing.T) {
	for _, row := range callDenials {
		t.Run(row.why, func(t *testing.T) {
			got := n.once(t, mustNotRun(t), Guard{Limiter: scripted(row.results...)})
			got.wantCallDenial(t, callDenial{code: 8, pushback: row.pushback, details: row.details})
		})
	}
}

func (n Native) testFailure(t *testing.T) {
	for _, row := range failures {
		t.Run(row.why, func(t *testing.T) {
			got := n.once(t, mustNotRun(t), Guard{Limiter: row.limiter()})
			got.wantCallDenial(t, failedCalls[row.status])
			retry := got.Trailer.Get("Retry-After")
			expect.Equal(t, retry == "5", row.status == 503, "Retry-After = %q", retry)
		})
	}
}

// testHandlers checks deny and error handlers that log and send the default response.
func (n Native) testHandlers(t *testing.T) {
	var seen core.Decision
	got := n.once(t, mustNotRun(t), Guard{Limiter: scripted(empty), Denied: func(_ http.Header, d core.Decision) { seen = d }})
	if want := n.once(t, mustNotRun(t), Guard{Limiter: scripted(empty)}); !reflect.DeepEqual(got, want) || seen.Allowed || len(seen.Results) != 1 {
		t.Errorf("got %+v, want %+v; the decision is %+v", got, want, seen)
	}
	for _, row := range failures {
		var logged error
		got := n.once(t, mustNotRun(t), Guard{Limiter: row.limiter(), Log: func(err error) { logged = err }})
		if want := n.once(t, mustNotRun(t), Guard{Limiter: row.limiter()}); !reflect.DeepEqual(got, want) || !errors.Is(logged, row.kind) {
			t.Errorf("%s: logged %v, got %+v, want %+v", row.why, logged, got, want)
		}
	}
}

func (n Native) testFailureModes(t *testing.T) {
	for mode, want := range map[core.FailureMode][]string{core.FailOpen: nil, core.FailLocal: {"1", "0"}} {
		down := failure{store: &script{err: errSecret}, rule: core.Rule{Key: anyone, OnFailure: mode}}
		got := n.once(t, succeed, Guard{Limiter: withOpenBreaker(t, down.limiter())})
		seen := append(got.Header["X-Ratelimit-Limit"], got.Header["X-Ratelimit-Remaining"]...)
		expect.True(t, got.Code == 0 && slices.Equal(seen, want), "mode %v: %+v, want %q", mode, got, want)
	}
}

func (n Native) testHeaders(t *testing.T) {
	for _, row := range decisionFields {
		t.Run(row.why, func(t *testing.T) {
			got := n.once(t, succeed, Guard{Limiter: scripted(row.results...)})
			got.wantFields(t, row.want...)
			if admitted := row.status == 200; (got.Code == 0) != admitted || admitted && len(limiting(got.Trailer).limiting()) > 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// testFailedHeaders checks that an admitted call that fails has the header fields of both limiters, and that a client may still retry it.
func (n Native) testFailedHeaders(t *testing.T) {
	got := n.once(t, func(context.Context) int { return 14 }, Guard{Limiter: scripted(half), Headers: headers.IETF}, Guard{Limiter: scripted(half)})
	got.wantFields(t, and(halfSet, `Ratelimit-Policy: "api";q=100;w=60`, `Ratelimit: "api";r=50;t=1`)...)
	expect.True(t, got.Code == 14 && got.TrailersOnly && got.Trailer.Get("Grpc-Retry-Pushback-Ms") == "", "got %+v", got)
}

func (n Native) testWriters(t *testing.T) {
	for _, row := range writerFields {
		t.Run(row.why, func(t *testing.T) {
			n.once(t, succeed, Guard{Limiter: scripted(half), Headers: row.write}).wantFields(t, row.allowed...)
			n.once(t, succeed, Guard{Limiter: scripted(empty), Headers: row.write}).wantFields(t, row.denied...)
		})
	}
}

func (n Native) testCount(t *testing.T) {
	var served atomic.Int32
	send := n.Serve(t, []Guard{{Limiter: counting(3)}}, func(context.Context) int {
		served.Add(1)
		return 0
	})
	for i := range 5 {
		got := send(t.Context())
		expect.Equal(t, got.Code == 0, i < 3, "call %d: %+v", i+1, got)
	}
	expect.Equal(t, served.Load(), 3, "how often the handler ran")
}

// outcomeOf returns the outcome of the call that ask sends to a method. The limiter is mounted three times, which counts once.
func (n Native) outcomeOf(t *testing.T, handle func(context.Context) int, ask func(send func(context.Context) NativeReply)) core.Outcome {
	t.Helper()
	l, store, ends := holding()
	g := Guard{Limiter: l}
	ask(n.Serve(t, []Guard{g, g, g}, handle))
	must.True(t, len(ends.seen) == 1 && len(store.settled) == 1,
		"the outcomes are %+v, settled was %+v; want one of each", ends.seen, store.settled)
	c := store.settled[0]
	expect.True(t, c.Held && c.Final == ends.seen[0].Cost && !c.At.IsZero(), "settled was %+v", c)
	return ends.seen[0]
}

// testOutcome checks the status of a call for each code, for a code that does not exist and for a panic.
func (n Native) testOutcome(t *testing.T) {
	for code := range 19 {
		want := core.Outcome{Cost: 1, Status: codes.Code(code).HTTPStatus()}
		if code == 0 {
			want.Bytes = n.Size
		}
		got := n.outcomeOf(t, func(context.Context) int { return code }, func(send func(context.Context) NativeReply) {
			expect.Equal(t, send(t.Context()).Code, code, "code")
		})
		expect.Equal(t, got, want, "code %d: the outcome", code)
	}
	got := n.outcomeOf(t, func(context.Context) int { panic("oops") }, func(send func(context.Context) NativeReply) {
		expect.Equal(t, send(t.Context()).Code, 13, "code of a panic, which the server recovers")
	})
	expect.True(t, got.Err != nil && got.Status == http.StatusInternalServerError, "a panic: the outcome is %+v", got)
}

func (n Native) testClientGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got := n.outcomeOf(t, func(ctx context.Context) int {
		cancel()
		<-ctx.Done()
		return 0
	}, func(send func(context.Context) NativeReply) { send(ctx) })
	expect.ErrorIs(t, got.Err, context.Canceled, "the outcome is %+v (one of a client that has gone)", got)
}

func (n Native) testSetCost(t *testing.T) {
	var during, other bool
	var late context.Context
	got := n.outcomeOf(t, func(ctx context.Context) int {
		late, during, other = ctx, core.SetCost(ctx, "api", 58), core.SetCost(ctx, "elsewhere", 1)
		return 0
	}, func(send func(context.Context) NativeReply) { send(t.Context()) })
	expect.True(t, got.Cost == 58 && during && !other && !core.SetCost(late, "api", 1),
		"the outcome is %+v; SetCost says %v, %v for another rule", got, during, other)
}

func (n Native) testTwoLimiters(t *testing.T) {
	for _, row := range limiterPairs {
		t.Run(row.why, func(t *testing.T) {
			var seen core.Decision
			note := func(_ http.Header, d core.Decision) { seen = d }
			got := n.once(t, func(ctx context.Context) int {
				seen, _ = core.FromContext(ctx)
				return 0
			}, Guard{Limiter: row.app, Denied: note}, Guard{Limiter: row.route, Denied: note})
			got.wantFields(t, row.want...)
			if (got.Code == 0) != (row.status == 200) || got.Code != 0 && !got.TrailersOnly {
				t.Errorf("got %+v", got)
			}
			both := len(seen.Results) == 2
			expect.True(t, both == row.bothDecided && seen.Allowed == (row.status == 200), "the decision is %+v", seen)
		})
	}
}

func (n Native) testMountedTwice(t *testing.T) {
	g, other := Guard{Limiter: counting(2)}, Guard{Limiter: counting(100)}
	send := n.Serve(t, []Guard{g, other, g}, succeed)
	for i := range 3 {
		if got := send(t.Context()); (got.Code == 0) != (i < 2) || len(got.Header["X-Ratelimit-Remaining"])+len(got.Trailer["X-Ratelimit-Remaining"]) != 1 {
			t.Errorf("call %d: %+v", i+1, got)
		}
	}
}

// testNested checks that an outer limiter notices that an inner limiter has denied a call.
func (n Native) testNested(t *testing.T) {
	outer, _, ends := holding()
	n.once(t, mustNotRun(t), Guard{Limiter: outer}, Guard{Limiter: scripted(empty)})
	expect.True(t, len(ends.seen) == 1 && ends.seen[0].Status == http.StatusTooManyRequests,
		"the outcomes are %+v, want status 429", ends.seen)
}

func (n Native) testAtOnce(t *testing.T) {
	for why, end := range map[string]func() int{"returns": func() int { return 0 }, "fails": func() int { return 5 }, "panics": func() int { panic("oops") }} {
		for _, final := range []func(*http.Request, core.Outcome) int{nil, core.Failures} {
			l := newLimiter(new(core.MemoryStore), core.Rule{Name: "up", Key: anyone, Limits: []core.Limit{core.AtOnce(1)}, CostAfter: final})
			started, release := make(chan bool), make(chan bool)
			var once sync.Once
			send := n.Serve(t, []Guard{{Limiter: l}, {Limiter: l}}, func(context.Context) (code int) {
				first := false
				once.Do(func() { first = true })
				if first {
					close(started)
					<-release
					return end()
				}
				return 0
			})
			ended := make(chan bool)
			go func() {
				defer close(ended)
				send(t.Context())
			}()
			<-started
			if got := send(t.Context()); got.Code != 8 || got.Trailer.Get("Grpc-Retry-Pushback-Ms") != "1000" || got.Trailer.Get("X-Ratelimit-Limit") != "1" {
				t.Errorf("%s: the second call gets %+v", why, got)
			}
			close(release)
			<-ended
			got := send(t.Context())
			got.wantFields(t)
			expect.Equal(t, got.Code, 0, "%s: after the first call, one gets %+v", why, got)
		}
	}
}

func (n Native) testWaiting(t *testing.T) {
	const wait = 150 * time.Millisecond
	l, s, _ := waitFor(wait)
	begun := time.Now()
	if got := n.once(t, succeed, Guard{Limiter: l}); got.Code != 0 || time.Since(begun) < wait || s.charged.Load() != 1 {
		t.Errorf("%+v after %v, charged %d; want success after %v", got, time.Since(begun), s.charged.Load(), wait)
	}
}

func (n Native) testWaitingClientGone(t *testing.T) {
	l, store, begun := waitFor(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	n.Serve(t, []Guard{{Limiter: l}}, mustNotRun(t))(ctx)
	waiting, charged := l.StoreHealth().Waiting, store.charged.Load()
	expect.True(t, waiting == 0 && charged == 0, "%d wait, %d charged", waiting, charged)
}

// testWaitingWithinADeadline checks that a call whose turn comes after its deadline is denied at once.
func (n Native) testWaitingWithinADeadline(t *testing.T) {
	l, store := bookingsOf(core.Rule{Name: "slow", Key: anyone, Limits: []core.Limit{core.PerHour(1)}, MaxWait: time.Hour})
	send := n.Serve(t, []Guard{{Limiter: l}}, succeed)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	got := send(ctx)
	expect.Equal(t, got.Code, 0, "the first call gets %+v", got)
	got = send(ctx)
	expect.True(t, got.Code == 8 && ctx.Err() == nil, "a call whose turn comes too late gets %+v", got)
	expect.AtMost(t, time.Duration(store.longest.Load()), timeout, "a call may wait")
}
