package faults

import (
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// The texts of errors, of go-redis or of the deadline, for a server that does not answer and for connections that end.
const (
	late = "deadline exceeded|i/o timeout|pool timeout"
	cut  = "EOF|reset|broken pipe|closed"
)

// through returns a fault of a proxy. Its end cuts the connections that lost something: go-redis would keep them in its
// pool until its ReadTimeout of 3s.
func through(name string, f redistest.Fault, says string, late bool) fault {
	return fault{
		name: name, says: says, late: late, hangs: f.Every,
		begin: func(s *scene) { s.proxy.Fault.Store(f) },
		end: func(s *scene) {
			s.proxy.Fault.Store(redistest.NoFault)
			if f.Lose != redistest.Nothing {
				s.proxy.Cut()
			}
		},
	}
}

func signal(s *scene, sig syscall.Signal) { must.Do(s, syscall.Kill(s.server.PID(), sig)) }

func TestConnectionFaults(t *testing.T) {
	for _, f := range []fault{
		{name: "rejected", says: syscall.ECONNREFUSED.Error() + "|" + cut + "|" + late, // go-redis dials for 1.7s before it says so
			begin: func(s *scene) { s.proxy.Reject() }, end: func(s *scene) { s.proxy.Accept(s) }},
		{name: "killed", says: cut + "|" + late, forgets: true,
			begin: func(s *scene) { s.server.Kill() }, end: func(s *scene) { s.server.Restart(s) }},
		{name: "stopped", says: late, late: true,
			begin: func(s *scene) { signal(s, syscall.SIGSTOP) }, end: func(s *scene) { signal(s, syscall.SIGCONT) }},
		{name: "paused", says: late, late: true,
			begin: func(s *scene) { s.do("client", "pause", 60_000, "write") }, end: func(s *scene) { s.do("client", "unpause") }},
		through("cut before execution", redistest.CutCommands, cut, false),
		through("cut after execution", redistest.CutReplies, cut, true),
		through("reset after execution", redistest.ResetReplies, cut, true),
		through("black hole", redistest.BlackHole, late, false),
		through("replies lost", redistest.SwallowReplies, late, true),
		through("slow", redistest.Fault{Delay: 500 * time.Millisecond}, late, true),
	} {
		t.Run(f.name, f.run)
	}
}
