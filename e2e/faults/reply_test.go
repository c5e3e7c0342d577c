package faults

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// commands returns a fault that a command to the server begins and another one ends.
func commands(says, begin, end string) fault {
	do := func(text string) func(*scene) {
		return func(s *scene) {
			for command := range strings.SplitSeq(text, ";") {
				var args []any
				for _, word := range strings.Fields(command) {
					args = append(args, strings.ReplaceAll(word, "_", " "))
				}
				s.do(args...)
			}
		}
	}
	name, _, _ := strings.Cut(says, "|")
	return fault{name: name, says: says, begin: do(begin), end: do(end)}
}

const killOthers = ";client kill type normal skipme yes"

func TestErrorReplies(t *testing.T) {
	tests := []fault{
		commands("OOM", "config set maxmemory 1", "config set maxmemory 0"),
		commands("READONLY", "replicaof 127.0.0.1 1", "replicaof no one"),
		commands("MASTERDOWN|READONLY", "config set replica-serve-stale-data no;replicaof 127.0.0.1 1", "replicaof no one"),
		commands("NOPERM", "acl setuser default -fcall -evalsha -eval", "acl setuser default +@all"),
		commands("NOAUTH|unauthenticated", "config set requirepass secret"+killOthers, "acl setuser default nopass"),
		commands("max number of clients|"+late+"|"+cut, "config set maxclients 1"+killOthers, "config set maxclients 1000"),
		{name: "MISCONF", says: "MISCONF", args: []string{"--enable-protected-configs", "yes"}, begin: failToSave,
			end: func(s *scene) { s.do("config", "set", "stop-writes-on-bgsave-error", "no") }},
		{name: "LOADING", says: "LOADING|" + late, args: []string{"--loading-process-events-interval-bytes", "1024"}, begin: load,
			end: func(s *scene) { s.do("config", "set", "key-load-delay", 0) }},
		{name: "BUSY", says: "BUSY|" + late, begin: loop, end: func(s *scene) { s.do("script", "kill") }},
	}
	for _, answer := range []string{"CLUSTERDOWN The cluster is down", "NOREPLICAS Not enough good replicas to write.", "ERR of a kind that nobody knows"} {
		code, _, _ := strings.Cut(answer, " ")
		tests = append(tests, through("answer "+code, redistest.Fault{Answer: answer}, code, false))
	}
	for _, f := range tests {
		t.Run(f.name, f.run)
	}
}

// failToSave lets the server fail to write a snapshot, after which it takes no writes.
func failToSave(s *scene) {
	ctx := context.Background()
	dir := s.admin.ConfigGet(ctx, "dir").Val()["dir"]
	must.Do(s, os.MkdirAll(filepath.Join(dir, "taken.rdb", "full"), 0o700))
	s.do("config", "set", "dbfilename", "taken.rdb")
	s.do("config", "set", "save", "3600 1")
	s.do("bgsave")
	redistest.Wait(s, "the snapshot to fail", func() bool {
		return strings.Contains(s.admin.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

// load has the server load a large file, slowly.
func load(s *scene) {
	s.do("debug", "populate", 10_000)
	s.do("config", "set", "key-load-delay", 1000)
	reloading := make(chan struct{})
	other := s.server.Client(s)
	go func() {
		defer close(reloading)
		_ = other.Do(context.Background(), "debug", "reload").Err() // go-redis gives up waiting
	}()
	s.Cleanup(func() { <-reloading })
	s.await("LOADING")
}

// loop keeps the server busy with an endless script.
func loop(s *scene) {
	s.do("config", "set", "busy-reply-threshold", 10)
	looping := make(chan struct{})
	other := s.server.Client(s)
	go func() {
		defer close(looping)
		_ = other.Do(context.Background(), "eval", "while true do end", 0).Err() // killed
	}()
	s.Cleanup(func() { <-looping })
	s.await("BUSY")
}
