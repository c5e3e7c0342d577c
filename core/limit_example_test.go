package core_test

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Two token buckets of the same rate: one admits a minute's requests at once, the other five.
func ExamplePerMinute() {
	fmt.Println(core.PerMinute(60).Capacity(), core.PerMinute(60).WithBurst(5).Capacity())
	// Output: 60 5
}

// A token bucket begins full and refills all day. A plan that promises 1,000 a day is a fixed window.
func ExamplePerDay() {
	fmt.Println(core.PerDay(1000), "admits up to 1999 on the first day")
	fmt.Println(core.PerDay(1000).Using(core.FixedWindow), "admits 1000 from midnight to midnight, UTC")
	// Output:
	// 1000/1d admits up to 1999 on the first day
	// 1000/1d;fixed-window admits 1000 from midnight to midnight, UTC
}

func ExamplePerSecond() {
	fmt.Println(core.PerSecond(10), core.PerSecond(10).WithBurst(100))
	// Output: 10/1s 10/1s;burst=100
}

func ExamplePerHour() {
	fmt.Println(core.PerHour(240).Using(core.SlidingWindow))
	// Output: 240/1h;sliding-window
}

func ExampleEvery() {
	fmt.Println(core.Every(5, 15*time.Minute).Using(core.SlidingLog))
	// Output: 5/15m;sliding-log
}

// At most two requests of a user are in flight. Each holds its place until its response has ended.
func ExampleAtOnce() {
	limiter := core.Must(core.New([]core.Rule{core.AtOnce(2).By(byUser)}))
	hold := core.Claim{Key: "user:ann", Hold: true}
	first, _ := limiter.Take(ctx, hold)
	second, _ := limiter.Take(ctx, hold)
	third, _ := limiter.Take(ctx, hold)
	fmt.Println(first.Allowed, second.Allowed, third.Allowed)

	_ = limiter.Settle(ctx, first, "", 1)
	fourth, _ := limiter.Take(ctx, hold)
	fmt.Println(fourth.Allowed)
	// Output:
	// true true false
	// true
}

// A rule that has nothing else to say.
func ExampleLimit_By() {
	rule := core.PerMinute(100).By(byUser)
	rule.Name = "api"
	fmt.Println(rule.Name, rule.Limits)
	// Output: api [100/1m]
}

func ExampleLimit_WithBurst() {
	limit := core.PerMinute(60).WithBurst(10)
	fmt.Println(limit, limit.Capacity())
	// Output: 60/1m;burst=10 10
}

func ExampleLimit_Using() {
	fmt.Println(core.PerMinute(60).Using(core.SlidingWindow))
	// Output: 60/1m;sliding-window
}

// String writes what ParseLimits reads.
func ExampleLimit_String() {
	limit := core.Limit{Rate: 5, Period: 10 * time.Minute, Ban: time.Hour}
	again, err := core.ParseLimits(limit.String())
	fmt.Println(limit, again[0] == limit, err)
	// Output: 5/10m;ban=1h true <nil>
}

func ExampleLimit_Validate() {
	fmt.Println(core.Limit{Rate: 5}.Validate())
	// Output: spillgate: period must be at least 1ms, got 0s
}

func ExampleMustParseLimits() {
	login := core.Rule{Name: "login", Key: byUser, Limits: core.MustParseLimits("5/10m;ban=1h, 20/d")}
	fmt.Println(login.Limits)
	// Output: [5/10m;ban=1h 20/1d]
}
