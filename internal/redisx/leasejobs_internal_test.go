package redisx

import (
	"context"
	"encoding/binary"
	"math/rand"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

// A slowServer answers in place of a server: buckets are always empty, and a run takes a time that no machine changes. It counts
// the requests, grants and settlements that it is sent.
type slowServer struct {
	perRun, perJob time.Duration
	free           chan struct{} // has room if nothing runs
	jobs
}

type jobs struct {
	asked   int // requests that are not leased
	grants  int
	settled int
}

func (s *slowServer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowServer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *slowServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(once); ok {
			s.free <- struct{}{}
			c.SetVal(textOf(s.answer(cmd.Args())))
			<-s.free
		}
		return nil
	}
}

// answer answers a call of the script: see lua/run.lua.
func (s *slowServer) answer(words []any) []int64 {
	reply := []int64{time.Now().UnixMicro(), 0}
	keys, args := words[2].(int), words[3+words[2].(int):]
	for len(args) > 0 {
		plan, numbers, places := args[0].(string), "", 1
		for i, head := range strings.Fields(plan)[1:] {
			if n, _ := strconv.Atoi(head); i%8 == 0 {
				places = max(places, n/64)
			}
		}
		if args = args[1:]; plan[0] == 's' || strings.HasPrefix(plan, "t 81 ") { // its first limit is leased
			numbers, args = args[0].(string), args[1:]
		}
		n := keys / places
		if len(args) > 0 {
			n, args = args[0].(int), args[1:]
		}
		if keys -= n * places; numbers != "" {
			n = len(numbers) / (5 * 8)
		}
		switch {
		case plan[0] == 's':
			s.settled, reply = s.settled+n, append(reply, make([]int64, n)...)
		case numbers == "":
			s.asked, reply = s.asked+n, append(reply, slices.Repeat([]int64{0, 0, 0, 0, 1_000_000}, n)...)
		default:
			s.grants += n
			for ; len(numbers) > 0; numbers = numbers[5*8:] {
				reply = append(reply, 0, 0, 0, 0, 1_000_000, int64(binary.LittleEndian.Uint64([]byte(numbers))))
			}
		}
		time.Sleep(time.Duration(n) * s.perJob)
	}
	time.Sleep(s.perRun)
	return reply
}

func noConnection(context.Context, string, string) (net.Conn, error) {
	return nil, net.ErrClosed
}

// byZipf has 64 callers ask for keys by Zipf, each with a pause of that mean after an answer. It returns how often they asked
// in a second, and what the server did from its beginning on until all was given back.
func byZipf(t *testing.T, keys uint64, pause time.Duration) (asked int, done jobs) {
	server := &slowServer{perRun: 200 * time.Microsecond, perJob: 5 * time.Microsecond, free: make(chan struct{}, 1)}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: noConnection})
	defer client.Close()
	client.AddHook(server)
	s := New(client, Options{Prefix: "p"})
	s.first.Do(func() {})
	limits := []core.Limit{core.PerSecond(1_000_000)}
	begun := time.Now()
	var since atomic.Int64
	for i := range 64 {
		random := rand.New(rand.NewSource(int64(i)))
		draw := rand.NewZipf(random, 1.1, 1, keys-1)
		go func() {
			for time.Since(begun) < 1200*ms {
				c := core.Claim{Key: strconv.FormatUint(draw.Uint64(), 10), Limits: limits, Lease: 100 * ms}
				s.takeOne(t, c)
				since.Add(1)
				time.Sleep(time.Duration(random.ExpFloat64() * float64(pause)))
			}
		}()
	}
	time.Sleep(200 * ms)
	server.free <- struct{}{}
	server.jobs = jobs{}
	<-server.free
	since.Store(0)
	time.Sleep(time.Second)
	asked = int(since.Load())
	time.Sleep(time.Second)
	server.free <- struct{}{}
	defer func() { <-server.free }()
	return asked, server.jobs
}

// TestKeysByZipfTakeFewJobs counts what the server does for keys of which most are asked for only a few times within a lease: grants
// that nobody uses, and calls beside a grant, would be more than what the leases save.
func TestKeysByZipfTakeFewJobs(t *testing.T) {
	for pause, most := range map[time.Duration]float64{500 * time.Microsecond: 0.24, ms: 0.31, 4 * ms: 0.46} {
		synctest.Test(t, func(t *testing.T) {
			asked, s := byZipf(t, 3000, pause)
			if jobs := s.asked + s.grants + s.settled; float64(jobs) > most*float64(asked) {
				t.Errorf("a pause of %v: %d requests take %d jobs: %d requests, %d grants and %d settlements; want at most %.2f of them",
					pause, asked, jobs, s.asked, s.grants, s.settled, most)
			}
		})
	}
}
