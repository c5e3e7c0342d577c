package core

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// Go allocates objects of up to 448 bytes on a fast path, and the record also has room for the handler's request. The sizes are
// for 64-bit systems.
func TestRecordOfARequestIsSmall(t *testing.T) {
	expect.AtMost(t, unsafe.Sizeof(guarded{}), 448, "the record of a request has bytes, %d of them for the request", unsafe.Sizeof(http.Request{}))
	expect.AtMost(t, unsafe.Sizeof(asked{}), 64, "a claim has bytes")
}

func TestRequestThatHasWaitedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Must(New([]Rule{{Name: "r", Limits: []Limit{PerSecond(1)}, MaxWait: time.Minute}}))
		for range 3 {
			must.Get(l.Wait(t.Context(), Claim{Rule: "r", Key: "k"}))(t)
		}
		expect.True(t, len(l.waiting.taken) == 0 && len(l.waiting.asking) == 0, "left of the places: %v, %v", l.waiting.taken, l.waiting.asking)
	})
}

// requestFields are the fields of http.Request that the bytes of a request identify, and that a copy shares with it. Before you
// add a field here that a new version of Go has, look at what restore does to it. A field that must not be copied, such as a
// lock, needs a change there.
const requestFields = "Method URL Proto ProtoMajor ProtoMinor Header Body GetBody ContentLength TransferEncoding Close Host Form PostForm " +
	"MultipartForm Trailer RemoteAddr RequestURI TLS Cancel Response Pattern ctx pat matches otherValues"

func TestFieldsOfRequestsAreKnown(t *testing.T) {
	var names []string
	for f := range fieldsOf(reflect.TypeFor[http.Request]()) {
		names = append(names, f.Name)
		switch f.Type.Kind() {
		case reflect.String, reflect.Pointer, reflect.Int, reflect.Int64, reflect.Bool, reflect.Map, reflect.Slice, reflect.Interface, reflect.Func, reflect.Chan:
		default:
			t.Errorf("%s is a %v, which identical does not know", f.Name, f.Type)
		}
	}
	expect.Equal(t, strings.Join(names, " "), requestFields, "http.Request has the fields")
}

func fieldsOf(s reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range s.NumField() {
			if !yield(s.Field(i)) {
				return
			}
		}
	}
}

// changedRequest returns a copy of r in which one exported field has another value.
func changedRequest(r *http.Request, field string) *http.Request {
	own := r.WithContext(r.Context())
	v := reflect.ValueOf(own).Elem().FieldByName(field)
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Chan:
		v.Set(reflect.MakeChan(reflect.ChanOf(reflect.BothDir, v.Type().Elem()), 0).Convert(v.Type()))
	case reflect.Interface:
		v.Set(reflect.ValueOf(http.MaxBytesReader(nil, http.NoBody, 1)))
	}
	return own
}

// TestIdenticalSeesEachChange changes each field of a request, including the fields that only package http can change.
func TestIdenticalSeesEachChange(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/users/7", strings.NewReader("x"))
	for range 100 {
		must.True(t, identical(r, r.WithContext(r.Context())), "a copy is not identical")
	}
	for f := range fieldsOf(reflect.TypeFor[http.Request]()) {
		expect.True(t, !f.IsExported() || !identical(r, changedRequest(r, f.Name)), "a request with another %s is identical", f.Name)
	}
	set := r.WithContext(r.Context())
	set.SetPathValue("id", "7")
	expect.True(t, !identical(r, set), "a request with a path value is identical")
	routed := 0
	before := r
	for range 2 { // the second mux finds the same pattern and value in the request
		mux := http.NewServeMux()
		mux.HandleFunc("/users/{id}", func(_ http.ResponseWriter, own *http.Request) {
			routed++
			expect.True(t, !identical(before, own) && own.PathValue("id") == "7", "a request that mux %d has routed is identical", routed)
			before = own
		})
		mux.ServeHTTP(httptest.NewRecorder(), before.WithContext(before.Context()))
	}
	expect.Equal(t, routed, 2, "muxes have routed the request")
}

func TestWhenACostFits(t *testing.T) {
	minute := func(remaining int, reset time.Duration) Result {
		return Result{Limit: PerMinute(60), Remaining: remaining, RefillAfter: 300 * time.Millisecond, ResetAfter: reset}
	}
	window, never, places := minute(2, 57*time.Second), minute(0, 57*time.Second), minute(0, time.Second)
	window.Limit = window.Limit.Using(FixedWindow)
	never.Limit.Rate = 0
	places.Limit = AtOnce(5)
	for why, row := range map[string]struct {
		result Result
		cost   int
		want   time.Duration
	}{
		"at once":              {minute(2, 58*time.Second), 2, 0},
		"the next":             {minute(2, 58*time.Second), 3, 300 * time.Millisecond},
		"further ones":         {minute(2, 58*time.Second), 5, 2300 * time.Millisecond},
		"nearly all":           {minute(2, 57900*time.Millisecond), 60, 57300 * time.Millisecond},
		"all":                  {minute(2, 57*time.Second), 60, 57 * time.Second},
		"more than it has":     {minute(2, 57*time.Second), math.MaxInt, 57 * time.Second},
		"of a window":          {window, 5, 57 * time.Second},
		"the next of a window": {window, 3, 300 * time.Millisecond},
		"of no rate":           {never, 5, 57 * time.Second},
		"in flight":            {places, 5, 0},
	} {
		expect.Equal(t, row.result.availableAfter(row.cost), row.want, "%s: after", why)
	}
}

// The registry keeps no limiters, no stores and, once it is used again, nothing whose size depends on their number.
func TestRegistryForgetsLimiters(t *testing.T) {
	key := func(*http.Request) (string, error) { return "k", nil }
	for range 1000 {
		Must(New([]Rule{PerMinute(1).By(key)}, WithStore(new(MemoryStore)), WithFallback(new(MemoryStore))))
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		sharers.add(new(Limiter), nil)
		sharers.mu.Lock()
		left := len(sharers.limiters)
		sharers.mu.Unlock()
		if left < 100 { // what is left belongs to other tests
			return
		}
	}
	t.Error("limiters that nothing uses are still registered")
}

type slowStore struct{ MemoryStore }

func (*slowStore) Settle(context.Context, []Settlement) error {
	time.Sleep(10 * time.Millisecond)
	return nil
}

func TestNoTimerIsLeftBehind(t *testing.T) {
	end := func(l *Limiter, g *Guard) { g.Settle(Outcome{Status: 200}) }
	for why, row := range map[string]struct {
		after time.Duration
		end   func(l *Limiter, g *Guard)
	}{
		"a request that ends":                       {time.Second, end},
		"one that ends during a renewal":            {renewEvery + 5*time.Millisecond, end},
		"one that was renewed":                      {3*renewEvery + time.Second, end},
		"one that the application settles":          {time.Second, func(l *Limiter, g *Guard) { _ = l.Settle(context.Background(), g.Decision(), "", 0) }},
		"one that it settles while that is renewed": {renewEvery + 5*time.Millisecond, func(l *Limiter, g *Guard) { _ = l.Settle(context.Background(), g.Decision(), "r", 0) }},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rule := PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
				rule.Name, rule.CostAfter = "r", Failures
				l := Must(New([]Rule{rule}, WithStore(new(slowStore))))
				g := must.Get(l.Guard(context.Background(), httptest.NewRequest(http.MethodGet, "/", nil), nil))(t)
				timer := g.own.receipt.extra.timer
				must.True(t, timer.Stop(), "nobody renews the hold")
				timer.Reset(renewEvery)
				time.Sleep(row.after)
				row.end(l, &g)
				synctest.Wait()
				expect.True(t, !timer.Stop(), "a timer is left")
			})
		})
	}
}

func TestRequestThatHoldsNothingHasNoTimer(t *testing.T) {
	rules := []Rule{PerHour(9).By(func(*http.Request) (string, error) { return "k", nil }), PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })}
	rules[0].Name, rules[1].Name = "a", "b"
	g, err := Must(New(rules)).Guard(context.Background(), httptest.NewRequest(http.MethodGet, "/", nil), nil)
	e := g.own.receipt.extra
	expect.True(t, err == nil && e.timer == nil, "%v, %+v", err, e)
	g.End()
}
