package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/internal/must"
)

// A Sentinel is a master with a replica and three sentinels that watch them.
type Sentinel struct {
	Master, Replica *Server
	Addrs           []string // of the sentinels
}

const MasterName = "spillgate"

// StartSentinel starts the servers and waits until the sentinels know all of them. They consider a master dead after half a second.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{Master: Start(t)}
	s.Replica = Start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", s.Master.Port()), "--repl-diskless-sync-delay", "0")
	replica := s.Replica.Client(t)
	Wait(t, "the replica to be in step", func() bool {
		return strings.Contains(replica.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	for range 3 {
		s.Addrs = append(s.Addrs, s.startSentinel(t))
	}
	for _, addr := range s.Addrs {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr})
		Wait(t, "the sentinels to know each other", func() bool {
			m := c.Master(context.Background(), MasterName).Val()
			return m["num-other-sentinels"] == "2" && m["num-slaves"] == "1"
		})
		c.Close()
	}
	return s
}

func (s *Sentinel) startSentinel(t testing.TB) string {
	addr := FreeAddr(t)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\nsentinel monitor %[2]s 127.0.0.1 %[3]d 2\n"+
		"sentinel down-after-milliseconds %[2]s 500\nsentinel failover-timeout %[2]s 1000\nlogfile sentinel.log\ndir %[4]s\n",
		addr[strings.LastIndex(addr, ":")+1:], MasterName, s.Master.Port(), filepath.Dir(conf))
	must.Do(t, os.WriteFile(conf, []byte(text), 0o600))
	cmd := exec.Command(binary(t), conf, "--sentinel")
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return addr
}

// Client returns a client that follows the master, closed when the test ends.
func (s *Sentinel) Client(t testing.TB) *redis.Client {
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: s.Addrs})
	t.Cleanup(func() { c.Close() })
	return c
}

// Names reports whether all sentinels name a server as the master.
func (s *Sentinel) Names(master *Server) bool {
	for _, addr := range s.Addrs {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr})
		at, err := c.GetMasterAddrByName(context.Background(), MasterName).Result()
		c.Close()
		if err != nil || len(at) != 2 || at[1] != strconv.Itoa(master.Port()) {
			return false
		}
	}
	return true
}
