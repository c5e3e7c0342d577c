package redistest

import (
	"net"
	"testing"
	"time"
)

const (
	maxStall    = 300 * time.Millisecond
	maxAnswer   = 5 * time.Second // for how long the answer of a server is waited for
	maxAttempts = 10
)

// Undisturbed fails the test with the error of f, if any. If the process or a server of a test has stalled in the meantime, calls with a
// deadline may have failed for that reason: then it calls f again, which must begin with new state.
func Undisturbed(t testing.TB, f func() error) {
	t.Helper()
	for left := maxAttempts - 1; ; left-- {
		longest := watch()
		err := f()
		stall := longest()
		if err == nil {
			return
		}
		if stall < maxStall || left == 0 {
			t.Fatalf("%v; the longest stall was %v", err, stall)
		}
		t.Logf("%v; again, after a stall of %v", err, stall)
	}
}

// watch returns a function that returns for how long the process or a server of a test has stalled at most, and may be called once.
func watch() (longest func() time.Duration) {
	begun, stop := time.Now(), make(chan struct{}) // a stall may come before the goroutines have begun
	own, others := make(chan time.Duration, 1), make(chan time.Duration, 1)
	go func() { own <- longestTurn(begun, stop, func() {}) }()
	go func() {
		asked := make(servers)
		defer asked.close()
		others <- longestTurn(begun, stop, asked.ask)
	}()
	return func() time.Duration {
		close(stop)
		return max(<-own, <-others)
	}
}

// longestTurn calls f again and again until stop is closed, and returns the longest time from last or from one call to the next.
func longestTurn(last time.Time, stop <-chan struct{}, f func()) (worst time.Duration) {
	for ended := false; !ended; {
		time.Sleep(10 * time.Millisecond)
		f()
		now := time.Now()
		worst, last = max(worst, now.Sub(last)), now
		select {
		case <-stop:
			ended = true
		default:
		}
	}
	return worst
}

// servers are connections to servers by address.
type servers map[string]net.Conn

// ask asks each server that runs for an answer, and waits for it.
func (s servers) ask() {
	running.Range(func(key, _ any) bool {
		addr := key.(string)
		if s[addr] == nil {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return true // it has just been started or killed
			}
			s[addr] = conn
		}
		_ = s[addr].SetDeadline(time.Now().Add(maxAnswer))
		var answer [64]byte
		_, err := s[addr].Write([]byte("PING\r\n"))
		if err == nil {
			_, err = s[addr].Read(answer[:])
		}
		if err != nil {
			s[addr].Close()
			delete(s, addr)
		}
		return true
	})
}

func (s servers) close() {
	for _, conn := range s {
		conn.Close()
	}
}
