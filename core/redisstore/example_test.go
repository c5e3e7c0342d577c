package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
)

// server is a Redis for the examples.
func server() *miniredis.Miniredis {
	m, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	m.SetTime(time.Unix(1_800_000_000, 0))
	return m
}

// Two processes that use the same Redis share a limit.
func Example() {
	s := server()
	defer s.Close()
	process := func() *core.Limiter {
		client := redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true})
		rules := []core.Rule{{Name: "api", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerMinute(3)}}}
		return core.Must(core.New(rules, core.WithStore(redisstore.New(client)), core.WithTimeout(10*time.Second)))
	}
	one, other := process(), process()
	claim := core.Claim{Rule: "api", Key: "user:42"}
	for _, limiter := range []*core.Limiter{one, other, one, other} {
		d, err := limiter.Take(context.Background(), claim)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Results[0].Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

func ExampleNew_options() {
	s := server()
	defer s.Close()
	store := redisstore.New(
		redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true}),
		redisstore.WithPrefix("shop"),
		redisstore.WithKeySecret([]byte("0123456789abcdef0123456789abcdef")),
		redisstore.WithDenyCache(10_000),
	)
	claim := core.Claim{Rule: "login", Key: "user:ann", Limits: []core.Limit{core.PerMinute(5)}}
	if _, err := store.Take(context.Background(), []core.Claim{claim}, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Keys())
	// Output: [shop:7:{*81bb82e188a5fe52e056341d25d57214}:login]
}
