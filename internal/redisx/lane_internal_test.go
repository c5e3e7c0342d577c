package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"pgregory.net/rapid"
)

// partOf returns the only part of a request.
func (s *Store) partOf(t interface{ Fatal(...any) }, claims ...core.Claim) *part {
	r, err := s.layout.newRequest(claims)
	if err != nil {
		t.Fatal(err)
	}
	return &s.split(r, together)[0]
}

// frozenStore returns a store on a server whose clock stands.
func frozenStore(t *testing.T) *Store {
	server := miniredis.RunT(t)
	server.SetTime(time.Unix(1_800_000_000, 0))
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	return New(client, Options{Prefix: "p"})
}

func TestAFlightDecidesLikeOneRequestAfterTheOther(t *testing.T) {
	together, apart := frozenStore(t), frozenStore(t)
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		var parts, alone []*part
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			claims := anyClaims(t, round)
			parts, alone = append(parts, together.partOf(t, claims...)), append(alone, apart.partOf(t, claims...))
		}
		ctx := context.Background()
		if err := together.takeParts(ctx, parts); err != nil { // sorts parts by plan
			t.Fatal(err)
		}
		slices.SortStableFunc(alone, func(a, b *part) int { return strings.Compare(a.plan, b.plan) })
		for i, p := range alone {
			if err := apart.takeParts(ctx, []*part{p}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.read(), parts[i].read()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.usages, parts[i].usages) {
				t.Fatalf("request %d, %x of %v: %+v in a flight, %+v alone", i, p.plan, p.keys, parts[i].usages, p.usages)
			}
		}
	})
}

// anyClaims returns the claims of a request. Few keys and limits make many requests meet.
func anyClaims(t *rapid.T, round int) (claims []core.Claim) {
	for range rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "claims") {
		claims = append(claims, core.Claim{
			Key:    fmt.Sprint(round, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")),
			Limits: core.MustParseLimits(rapid.SampledFrom([]string{"3/m", "3/m", "5/m, 7/h", "7/h", "4/m;fixed-window", "3/m, 5/m;sliding-log"}).Draw(t, "limits")),
			Cost:   rapid.SampledFrom([]int{1, 1, 2, 9}).Draw(t, "cost"),
			Peek:   rapid.IntRange(0, 9).Draw(t, "peek") == 0,
			DryRun: rapid.IntRange(0, 9).Draw(t, "dry run") == 0,
		})
	}
	return claims
}

func TestABadRequestSpoilsNoOther(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := New(client, Options{Prefix: "p"})
	if err := client.Do(ctx, "acl", "setuser", "default", "-zcard").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Do(ctx, "acl", "setuser", "default", "+@all") })
	bad := s.partOf(t, core.Claim{Key: "bad", Limits: core.MustParseLimits("5/m;sliding-log")})
	plain := s.partOf(t, core.Claim{Key: "plain", Limits: core.MustParseLimits("5/m")})
	other := s.partOf(t, core.Claim{Key: "other", Limits: core.MustParseLimits("5/m, 9/h;fixed-window")})
	if err := s.takeParts(ctx, []*part{plain, bad, other}); err != nil {
		t.Fatal(err)
	}
	if err := bad.read(); err == nil {
		t.Errorf("a request that the server refuses gets %+v", bad.usages)
	}
	for _, p := range []*part{plain, other} {
		if err := p.read(); err != nil || p.usages[0].remaining != 4 {
			t.Errorf("%v: %+v, %v, want 4 remaining", p.keys, p.usages, err)
		}
	}
}

func TestAFlightOverSeveralSlots(t *testing.T) {
	client := redistest.StartCluster(t).Client(t)
	s := New(struct{ *redis.ClusterClient }{client}, Options{Prefix: "p"})
	f := &flight{ctx: context.Background(), done: make(chan struct{})}
	for i := range 8 {
		f.parts = append(f.parts, s.partOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m")}))
	}
	s.running <- struct{}{}
	s.fly(f)
	for _, p := range f.parts {
		if err := errors.Join(p.err, p.read()); err != nil || p.usages[0].remaining != 4 {
			t.Errorf("%v: %+v, %v, want 4 remaining", p.keys, p.usages, err)
		}
	}
	if how := spread(s.spread.Load()); how != bySlot {
		t.Errorf("after CROSSSLOT keys are spread %d, want by slot", how)
	}
}

func TestWhenAFlightLeaves(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	flying := func(load int, age, left time.Duration) *flight {
		f := &flight{load: load, left: now.Add(-age)}
		if left != 0 {
			f.deadline = now.Add(left)
		}
		return f
	}
	for _, row := range []struct {
		why    string
		flying []*flight
		load   int
		want   bool
	}{
		{"nobody is in the air", nil, 1, true},
		{"as large as half of the one in the air", []*flight{flying(8, 0, 0)}, 4, true},
		{"smaller", []*flight{flying(8, 0, 0)}, 3, false},
		{"smaller, but that one is late", []*flight{flying(8, slow+1, 0)}, 3, true},
		{"two are in the air", []*flight{flying(1, time.Hour, 0), flying(1, time.Hour, 0)}, 100, false},
		{"one of two is overdue", []*flight{flying(1, 0, -1), flying(1, 0, time.Second)}, 1, true},
		{"one of two is due now", []*flight{flying(1, 0, 0), flying(1, time.Second, 0)}, 1, false},
	} {
		l := lane{flying: row.flying}
		if got := l.free(&flight{load: row.load}, now); got != row.want {
			t.Errorf("%s: leaves %v, want %v", row.why, got, row.want)
		}
	}
}

// busy returns a store whose lane is held by two flights that never land.
func busy(t *testing.T) (*Store, *lane) {
	s := frozenStore(t)
	l := &lane{flying: []*flight{{}, {}}}
	s.lanes.byName[""] = l
	return s, l
}

func TestFlightsAreBounded(t *testing.T) {
	for _, row := range []struct {
		limits   string
		requests int
		want     []int // requests of each flight
	}{
		{"5/m", 300, []int{256, 44}},
		{"5/m, 9/h", 200, []int{128, 72}},
		{"5/m;sliding-log", 40, []int{32, 8}},
		{"5/m, 9/h;fixed-window", 30, []int{28, 2}},
	} {
		s, l := busy(t)
		for i := range row.requests {
			s.board(context.Background(), s.partOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits(row.limits)}))
		}
		var got []int
		for _, f := range l.waiting {
			got = append(got, len(f.parts))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: flights of %d requests, want %d", row.limits, got, row.want)
		}
	}
}

func TestWhoGivesUpInTimeIsNotDecided(t *testing.T) {
	s, l := busy(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	claim := core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")}
	if _, _, err := s.Take(ctx, []core.Claim{claim}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want a deadline exceeded", err)
	}
	l.flying = nil // they have landed
	claim.Peek = true
	_, results, err := s.Take(context.Background(), []core.Claim{claim}, nil)
	if err != nil || results[0].Remaining != 5 {
		t.Errorf("%+v, %v, want all 5 to remain", results, err)
	}
	if len(l.waiting) > 0 {
		t.Errorf("%d flights wait for nobody", len(l.waiting))
	}
}

func TestTooManyCallsFailAtOnce(t *testing.T) {
	s := frozenStore(t)
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	for range maxRunning {
		s.running <- struct{}{}
	}
	for _, ctx := range []context.Context{context.Background(), t.Context()} { // with and without a goroutine
		if _, _, err := s.Take(ctx, claims, nil); !errors.Is(err, errCrowded) || errors.Is(err, core.ErrInvalid) {
			t.Errorf("%v, want %v", err, errCrowded)
		}
	}
	for range maxRunning {
		<-s.running
	}
	if _, results, err := s.Take(context.Background(), claims, nil); err != nil || results[0].Remaining != 4 {
		t.Errorf("%+v, %v, want 4 remaining", results, err)
	}
}

func TestWhoHasGivenUpBeforeIsNotDecided(t *testing.T) {
	s := frozenStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	for range 20 {
		if _, _, err := s.Take(ctx, claims, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
	}
	if _, results, err := s.Take(context.Background(), claims, nil); err != nil || results[0].Remaining != 4 {
		t.Errorf("%+v, %v, want 4 remaining", results, err)
	}
}

func TestAFlightIsAsPatientAsItsLastPart(t *testing.T) {
	early, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	late, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	want, _ := late.Deadline()
	never := context.Background()
	for _, row := range []struct {
		why  string
		ctxs []context.Context
		want time.Time
	}{
		{"the latest of all", []context.Context{early, late, early}, want},
		{"the first may have none", []context.Context{never, late}, time.Time{}},
		{"the last may have none", []context.Context{early, never}, time.Time{}},
	} {
		var f flight
		for _, ctx := range row.ctxs {
			f.add(ctx, &part{request: new(request)})
		}
		if !f.deadline.Equal(row.want) {
			t.Errorf("%s: %v, want %v", row.why, f.deadline, row.want)
		}
	}
}

// The scripts pack words themselves where there is no struct.
func TestWordsAreTheSameWithoutStruct(t *testing.T) {
	client := redistest.Start(t).Client(t)
	source := read("head", "words") + `
		local own, form, numbers = wordsWithoutStruct(), '<I8I8I8I8I8', {0, 1, 255, 1800000000000000, maxExact}
		local text = own.pack(form, unpack(numbers))
		local back = {own.unpack(form, 'x' .. text, 2)}
		for i, n in ipairs(numbers) do
			if back[i] ~= n then
				return 'word ' .. i .. ' reads ' .. format('%d', back[i])
			end
		end
		return text == struct.pack(form, unpack(numbers)) and 'alike' or 'not alike'`
	if got, err := client.Eval(context.Background(), source, nil).Text(); err != nil || got != "alike" {
		t.Errorf("%s, %v", got, err)
	}
}
