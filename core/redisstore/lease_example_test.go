package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
)

// A busy key of a rule with a lease is mostly decided without asking Redis.
func ExampleStore_LeaseStats() {
	s := server()
	defer s.Close()
	store := redisstore.New(redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true}))
	rule := core.PerMinute(100_000).By(keyfunc.RemoteIP)
	rule.Lease = 10 * time.Second
	limiter := core.Must(core.New([]core.Rule{rule}, core.WithStore(store), core.WithTimeout(10*time.Second)))
	for range 1000 {
		if _, err := limiter.Take(context.Background(), core.Claim{Key: "user:42"}); err != nil {
			log.Fatal(err)
		}
	}
	stats := store.LeaseStats()
	fmt.Println(stats.Keys, stats.Decisions > 50)
	// Output: 1 true
}
