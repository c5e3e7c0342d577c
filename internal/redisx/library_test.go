package redisx_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// commandName matches the command in a line of MONITOR, if a client sent it.
var commandName = regexp.MustCompile(`\[\d+ [^l][^\]]*\] "(\w+)"`)

// sentTo returns the names of the commands that clients send to a server while f runs.
func sentTo(t *testing.T, client *redis.Client, f func()) (names []string) {
	t.Helper()
	monitor := watch(t, client.Options().Addr)
	f()
	client.Do(context.Background(), "echo", "end")
	for line := range monitor {
		if strings.Contains(line, `"echo"`) {
			return names
		}
		if m := commandName.FindStringSubmatch(strings.ToLower(line)); m != nil && m[1] != "hello" && m[1] != "client" && m[1] != "info" && m[1] != "time" {
			names = append(names, m[1])
		}
	}
	return names
}

// A server that has lost the library has not executed the call. The store loads the library and sends this call again, and no
// other call.
func TestFlushedLibraryIsLoadedAgain(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s, c := redisx.New(client, options), claimOf("k", core.PerDay(1000))
	take(t, s, c)
	for range 3 {
		client.FunctionFlush(ctx)
		sent := sentTo(t, client, func() { take(t, s, c) })
		if want := []string{"fcall", "function", "fcall"}; !slices.Equal(sent, want) {
			t.Errorf("sent %v, want %v", sent, want)
		}
	}
	var callers sync.WaitGroup
	const each, flushes = 50, 20
	for range 4 {
		callers.Go(func() {
			for range each {
				take(t, s, c)
			}
		})
	}
	for range flushes {
		client.FunctionFlush(ctx)
	}
	callers.Wait()
	c.Peek = true
	if r := take(t, s, c)[0]; r.Remaining != 1000-1-3-4*each {
		t.Errorf("%d remain of 1000 after %d requests", r.Remaining, 1+3+4*each)
	}
}

// During a rolling upgrade, processes of two versions decide by the same states, and neither removes the library of the other.
func TestTwoVersionsOfTheLibraryShareAServer(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s, c := redisx.New(client, options), claimOf("k", core.MustParseLimits("9/d, 9/d;fixed-window, 9/h;sliding-log")...)
	for i := range 9 {
		if i%2 == 0 {
			s.SetVersion("")
		} else {
			s.SetVersion("2")
		}
		for _, r := range take(t, s, c) {
			if !r.Allowed || r.Remaining != 8-i {
				t.Errorf("request %d: %+v, want %d to remain", i, r, 8-i)
			}
		}
	}
	if n := len(client.FunctionList(context.Background(), redis.FunctionListQuery{}).Val()); n != 2 {
		t.Errorf("%d libraries for two versions", n)
	}
	if n := calls(t, client, "function|load"); n != 2 {
		t.Errorf("%d libraries were loaded, want one for each version", n)
	}
}

// The store of a user that may not load functions runs the script and no longer tries functions. If another user has loaded the
// library, the store calls it.
func TestUserWithoutTheRightToLoadFunctionsRunsTheScript(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	ctx := context.Background()
	must.Do(t, admin.Do(ctx, "acl", "setuser", "app", "on", ">secret", "~*", "+@all", "-function").Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "app", Password: "secret"})
	t.Cleanup(func() { client.Close() })
	c := claimOf("k", core.PerDay(10))
	for i, row := range []struct {
		why   string
		begin func()
		want  []string
	}{
		{"nobody has loaded the library", func() {}, []string{"fcall", "function", "evalsha", "eval", "evalsha", "evalsha"}},
		{"a server that knows the script", func() {}, []string{"fcall", "function", "evalsha", "evalsha", "evalsha"}},
		{"the library is there", func() { take(t, redisx.New(admin, options), c) }, []string{"fcall", "fcall", "fcall", "fcall"}}, // the first decides nothing
	} {
		row.begin()
		s := redisx.New(client, options)
		var last core.Result
		sent := sentTo(t, admin, func() {
			for range 3 {
				last = take(t, s, c)[0]
			}
		})
		// MONITOR does not show a command that the user may not run.
		want := slices.DeleteFunc(slices.Clone(row.want), func(name string) bool { return name == "function" })
		if !slices.Equal(sent, want) {
			t.Errorf("%s: sent %v, want %v", row.why, sent, want)
		}
		if want := 10 - 3*(i+1) - i/2; last.Remaining != want {
			t.Errorf("%s: %d remain, want %d", row.why, last.Remaining, want)
		}
	}
}

// A master that joined a Cluster, or replaced another one, has no library. The store loads it there when it first needs it.
func TestClusterNodeWithoutTheLibraryGetsIt(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	ctx := context.Background()
	s := redisx.New(cluster.Client(t), options)
	charge := func(want int) {
		t.Helper()
		for i := range 30 {
			if r := take(t, s, claimOf(fmt.Sprint(i), core.PerDay(9)))[0]; r.Remaining != want {
				t.Errorf("key %d: %d remain, want %d", i, r.Remaining, want)
			}
		}
	}
	charge(8)
	for i, n := range cluster.Nodes[:3] {
		client := n.Client(t)
		client.FunctionFlush(ctx)
		charge(7 - i)
		if n := len(client.FunctionList(ctx, redis.FunctionListQuery{}).Val()); n != 1 {
			t.Errorf("node %d has %d libraries", i, n)
		}
	}
}
