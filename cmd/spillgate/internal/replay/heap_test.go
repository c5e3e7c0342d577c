package replay

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

// manyClients is a Source of two requests of each of n clients, at whole seconds.
type manyClients struct{ n, next int }

func (s *manyClients) Next(e *accesslog.Entry) error {
	if s.next == 2*s.n {
		return io.EOF
	}
	*e = sent(time.Duration(s.next/1000)*time.Second, fmt.Sprintf("2001:db8:%x:%x::1", s.next%s.n>>16, s.next%s.n&0xffff), "/")
	e.Seconds = true
	s.next++
	return nil
}

func TestClientsTakeLittleMemory(t *testing.T) {
	testpass.Thorough(t)
	const clients, perClient, most = 40_000, 3, 100
	f := rules(t, "rules: [{name: a, key: ip, limits: 5/d}, {name: b, key: ip, limits: 6/d}, {name: c, key: ip, limits: 10/s}]")
	source := &manyClients{n: clients}
	before := liveHeap()
	var r *runner
	p, _, err := newPlayer(f, nil)
	must.Do(t, err)
	s := must.Get(newEvenPlayer(p))(t)
	r = &runner{player: p, even: s, report: &Report{}, routes: make(map[string]int)}
	next := must.Get(Order([]Source{source}, false))(t)
	must.Get(r.Each(t.Context(), next, r.decide))(t)
	s.finish()
	per := float64(liveHeap()-before) / clients / perClient
	runtime.KeepAlive(r)
	expect.True(t, per <= most && p.rules[0].asked == 2*clients, "a client takes %.0f bytes per rule, want at most %d", per, most)
	t.Logf("%.1f bytes per client and rule", per)
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
