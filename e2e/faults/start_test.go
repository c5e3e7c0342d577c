package faults

import (
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/redistest"
)

// If Redis never works, the failure mode decides from the first request on.
func TestWrongFromTheStart(t *testing.T) {
	s := newScene(t)
	s.do("config", "set", "requirepass", "secret")
	for name, wrong := range map[string]struct {
		options redis.Options
		says    string
	}{
		"address":     {redis.Options{Addr: redistest.FreeAddr(t), Password: "secret"}, syscall.ECONNREFUSED.Error() + "|" + late},
		"no password": {redis.Options{Addr: s.server.Addr}, "NOAUTH|unauthenticated"},
		"password":    {redis.Options{Addr: s.server.Addr, Password: "wrong"}, "WRONGPASS"},
		"user":        {redis.Options{Addr: s.server.Addr, Username: "nobody", Password: "secret"}, "WRONGPASS"},
	} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(&wrong.options)
			defer client.Close()
			store := redisstore.New(client)
			var guards []*guard
			for mode := range modes {
				guards = append(guards, newGuard(t, store, mode, slowly(10)))
			}
			f := fault{says: wrong.says}
			each(guards, f.suffer)
		})
	}
	n := s.log.count(isDown)
	expect.True(t, n == 4*len(modes) && n == len(s.log.turns()), "want a line for each limiter, got %q", s.log.lines)
}
