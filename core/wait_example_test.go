package core_test

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/core"
)

// The outgoing calls of a fleet: with a shared store, all processes together send ten in a second, in one order.
func ExampleLimiter_Wait() {
	limiter := core.Must(core.New([]core.Rule{{
		Name: "partner", Limits: []core.Limit{core.PerSecond(10).WithBurst(1)}, MaxWait: time.Minute,
	}}))
	for range 2 {
		d, err := limiter.Wait(ctx, core.Claim{Rule: "partner", Key: "const:all"})
		switch {
		case err != nil: // ctx has ended: nothing is charged
			return
		case !d.Allowed: // it would have to wait for more than a minute
			return
		}
		fmt.Println(d.Wait.Round(100 * time.Millisecond))
	}
	// Output:
	// 0s
	// 100ms
}

// Take returns at once: a request that waits goes on Decision.Wait later.
func ExampleDecision_wait() {
	limiter := core.Must(core.New([]core.Rule{{
		Name: "webhooks", Limits: []core.Limit{core.PerMinute(1)}, MaxWait: 90 * time.Second,
	}}))
	for range 3 {
		d, _ := limiter.Take(ctx, core.Claim{Rule: "webhooks", Key: "user:ann"})
		fmt.Println(d.Allowed, d.Wait.Round(time.Second), d.RetryAfter().Round(time.Second))
	}
	// Output:
	// true 0s 0s
	// true 1m0s 0s
	// false 0s 30s
}

// At most a hundred requests wait; further ones are denied with the time after which they fit.
func ExampleWithMaxWaiting() {
	limiter, err := core.New([]core.Rule{{
		Name: "webhooks", Key: byUser, Limits: []core.Limit{core.PerSecond(10)}, MaxWait: 5 * time.Second,
	}}, core.WithMaxWaiting(100))
	fmt.Println(limiter.StoreHealth().Waiting, err)
	// Output: 0 <nil>
}
