package redistest

import (
	"sync/atomic"
	"time"
)

// A Fault changes how a proxy forwards commands: runs of scripts only, unless Every is set. The zero Fault changes nothing.
type Fault struct {
	Every  bool          // applies to every command, including the ones that set up a connection
	Once   bool          // applies to one command only
	Delay  time.Duration // how long the proxy holds a command
	Answer string        // an error that answers the command in place of the server, such as "LOADING .."
	Lose   Loss          // whether the command, its reply or nothing is lost
	End    End           // how the connection ends when something is lost
}

// A Loss says whether a proxy drops a command, its reply or neither.
type Loss uint8

// The server executes a command whose reply is lost, but not a lost command.
const (
	Nothing Loss = iota
	Commands
	Replies
)

type End uint8

// A connection that never ends leaves the client waiting: a black hole.
const (
	NoEnd End = iota
	EOF       // closed in an orderly way
	Reset     // by RST
)

// The faults that many tests need.
var (
	NoFault         = Fault{}
	CutCommands     = Fault{Lose: Commands, End: EOF}
	CutReplies      = Fault{Lose: Replies, End: EOF}
	ResetReplies    = Fault{Lose: Replies, End: Reset}
	SwallowCommands = Fault{Lose: Commands}
	SwallowReplies  = Fault{Lose: Replies}
	BlackHole       = Fault{Lose: Commands, Every: true}
)

// A Switch holds the fault of a proxy. A new fault applies to commands that arrive after it is set.
type Switch struct{ fault atomic.Pointer[Fault] }

func (s *Switch) Store(f Fault) { s.fault.Store(&f) }

func (s *Switch) of(isScript bool) Fault {
	f := s.fault.Load()
	if f == nil || !f.Every && !isScript {
		return NoFault
	}
	if f.Once && !s.fault.CompareAndSwap(f, &Fault{}) {
		return NoFault
	}
	return *f
}
