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

// keysOf returns the keys in Redis after a login of ann, with a store of these options.
func keysOf(opts ...redisstore.Option) []string {
	s := server()
	defer s.Close()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()
	claim := core.Claim{Rule: "login", Key: "user:ann", Limits: []core.Limit{core.PerMinute(5)}}
	if _, err := redisstore.New(client, opts...).Take(context.Background(), []core.Claim{claim}, nil); err != nil {
		log.Fatal(err)
	}
	return s.Keys()
}

// Two services on one Redis that each have a rule named login.
func ExampleWithPrefix() {
	fmt.Println(keysOf(redisstore.WithPrefix("shop")))
	fmt.Println(keysOf(redisstore.WithPrefix("blog")))
	// Output:
	// [shop:7:{user:ann}:login]
	// [blog:7:{user:ann}:login]
}

// The keys in Redis do not reveal names or addresses.
func ExampleWithKeySecret() {
	fmt.Println(keysOf(redisstore.WithKeySecret([]byte("0123456789abcdef0123456789abcdef"))))
	// Output: [spillgate:7:{*81bb82e188a5fe52e056341d25d57214}:login]
}

// A process that decides for many clients remembers more denials.
func ExampleWithDenyCache() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	store := redisstore.New(client, redisstore.WithDenyCache(50_000))
	fmt.Println(store.Validate())
	// Output: <nil>
}

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
