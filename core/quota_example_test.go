package core_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Weeks start on Monday, or on another day.
func ExamplePerWeek() {
	fmt.Println(core.PerWeek(500))
	fmt.Println(core.PerWeek(500).From(7)) // Sunday
	// Output:
	// 500/week;calendar
	// 500/week;from=7
}

// A monthly quota renews on the 1st, at 00:00 UTC.
func ExamplePerMonth() {
	fmt.Println(core.PerMonth(10_000))
	// Output: 10000/month
}

func ExamplePerYear() {
	fmt.Println(core.PerYear(100_000).In("Asia/Tokyo"))
	// Output: 100000/year;tz=Asia/Tokyo
}

// A daily quota that renews at midnight in New York: a day may have 23 or 25 hours.
func ExampleLimit_In() {
	fmt.Println(core.PerDay(1000).In("America/New_York"))
	// Output: 1000/day;tz=America/New_York
}

// A customer's own billing day: the tier returns the limit of the plan from that day.
func ExampleLimit_From() {
	billingDay := func(*http.Request) int { return 15 } // from your database
	plan := core.PerMonth(10_000).In("Europe/Berlin")
	rule := core.Rule{
		Name: "plan", Key: userKey, Limits: []core.Limit{plan},
		Tier: func(r *http.Request) []core.Limit { return []core.Limit{plan.From(billingDay(r))} },
	}
	fmt.Println(rule.Tier(nil))
	// Output: [10000/month;tz=Europe/Berlin;from=15]
}

// In February, a month from the 31st starts on the last day.
func ExampleCalendar_Window() {
	month := core.Calendar{Unit: core.CalendarMonth, Zone: "Europe/Berlin", From: 31}
	start, end := month.Window(time.Date(2028, 2, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(start)
	fmt.Println(end)
	// Output:
	// 2028-01-31 00:00:00 +0100 CET
	// 2028-02-29 00:00:00 +0100 CET
}

// Support gives one customer 2,000 requests more, for this month.
func ExampleLimiter_Grant() {
	limiter := core.Must(core.New([]core.Rule{{Name: "plan", Key: userKey, Limits: []core.Limit{core.PerMonth(10_000)}}}))
	if err := limiter.Grant(context.Background(), "plan", "user:42", 2000); err != nil {
		fmt.Println(err)
	}
	d, _ := limiter.Take(context.Background(), core.Claim{Rule: "plan", Key: "user:42"})
	fmt.Println(d.Results[0].Remaining)
	// Output: 11999
}

// Operators see what was granted.
func ExampleLimiter_Grants() {
	limiter := core.Must(core.New([]core.Rule{{Name: "plan", Key: userKey, Limits: []core.Limit{core.PerMonth(10_000)}}}))
	if err := limiter.Grant(context.Background(), "plan", "user:42", 2000); err != nil {
		fmt.Println(err)
	}
	for _, g := range limiter.Grants().Last {
		fmt.Println(g.Rule, g.Key, g.Requests)
	}
	// Output: plan user:42 2000
}

// What the sender of a request has left under all rules. Asking charges nothing.
func ExampleLimiter_Usage() {
	limiter := core.Must(core.New([]core.Rule{
		{Name: "plan", Key: userKey, Limits: []core.Limit{core.PerMonth(10_000)}, Routes: []string{"POST /orders"}},
		{Name: "login", Key: userKey, Limits: []core.Limit{core.PerMinute(5)}},
	}))
	r := httptest.NewRequest("GET", "/usage", nil)
	d, err := limiter.Usage(r)
	if err != nil {
		fmt.Println(err)
	}
	for _, result := range d.Results {
		fmt.Println(result.Rule, result.Remaining)
	}
	// Output:
	// plan 10000
	// login 5
}

// What a customer has left, for a support console.
func ExampleLimiter_UsageOf() {
	limiter := core.Must(core.New([]core.Rule{{Name: "plan", Key: userKey, Limits: []core.Limit{core.PerMonth(10_000)}}}))
	d, err := limiter.UsageOf(context.Background(), "plan", "user:42")
	if err != nil {
		fmt.Println(err)
	}
	for _, result := range d.Results {
		fmt.Println(result.Limit, result.Remaining)
	}
	// Output: 10000/month 10000
}

func userKey(*http.Request) (string, error) { return "user:42", nil }

// A grant raises the number that Remaining counts down from.
func ExampleResult_Quota() {
	limiter := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{core.PerMonth(10)}}}))
	_ = limiter.Grant(context.Background(), "plan", "user:42", 8)
	d, _ := limiter.Take(context.Background(), core.Claim{Rule: "plan", Key: "user:42", Cost: 4})
	fmt.Println(d.Results[0].Remaining, "of", d.Results[0].Quota())
	// Output: 14 of 18
}

// A cost above the capacity and what is granted is denied for ever.
func ExampleDecision_IsTooLarge() {
	limiter := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{core.PerMonth(10)}}}))
	d, _ := limiter.Take(context.Background(), core.Claim{Rule: "plan", Key: "user:42", Cost: 11})
	fmt.Println(d.Allowed, d.IsTooLarge(0))
	// Output: false true
}

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
