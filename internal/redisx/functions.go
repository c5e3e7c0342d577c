package redisx

import (
	"cmp"
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// retryFunctions is how long a store uses scripts, which cost the server several times as much, before it tries again to
// use functions.
const retryFunctions = time.Minute

// functions records whether a server runs functions for this user. The zero value says so.
type functions struct {
	retry   pacer       // has a next attempt if the server does not run them
	worked  atomic.Bool // it has run one
	missing atomic.Bool // it does not have the library
}

// call does jobs in one run of the script, and returns the reply. Another attempt follows only an error reply that says that the
// server has not done them. A store that uses scripts tries functions again once a minute.
func (s *server) call(ctx context.Context, jobs []*job) (reply string, err error) {
	scripts, rejected := s.functions.retry.next.Load() != 0, false
	if scripts && !s.functions.retry.due(s.age(), retryFunctions) {
		return s.sendScript(ctx, jobs)
	}
	if scripts || !s.functions.worked.Load() { // some proxies end the connection at an FCALL, so the first one decides nothing
		rejected, err = s.probe(ctx, jobs[0].keys, scripts)
	}
	if err == nil {
		reply, err = s.sendFunction(ctx, jobs)
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) || !rejected && (!isReply(err) || isFault(err)) { // a script would be late too
		return reply, err
	}
	why := err
	if reply, err = s.sendScript(ctx, jobs); err == nil && !isNotFound(why) && s.functions.retry.next.Swap(int64(s.age()+retryFunctions)) == 0 {
		slog.Warn("spillgate: Redis does not run functions for this user, so the store uses scripts, which are slower", "err", why)
	}
	return reply, err
}

// probe runs the function without a decision, on the server that decides about keys: another one of a Ring may be down. It reports whether
// the store should use scripts: if the function fails, and the store does so already or the server ends connections at an FCALL.
func (s *server) probe(ctx context.Context, keys []string, scripts bool) (rejected bool, err error) {
	nothing := []*job{{keys: keys}}
	if _, err = s.sendFunction(ctx, nothing); err != nil {
		rejected = scripts || errors.Is(err, io.EOF) && s.endsConnections(ctx, nothing)
	}
	return rejected, err
}

// sendFunction does jobs by the function, and loads the library if the server does not have it. For a job without a plan, it finds
// out whether the server runs functions.
func (s *server) sendFunction(ctx context.Context, jobs []*job) (string, error) {
	reply, err := s.send(ctx, "fcall", s.script.function, jobs)
	if err != nil && isNotFound(err) {
		s.functions.missing.Store(true)
		switch loaded := s.round(ctx, s.loadLibrary); {
		case isReply(loaded):
			err = loaded
		case loaded == nil && jobs[0].plan == nil:
			err = nil
		default: // even if another server is down, this one may have got the library
			if reply, err = s.send(ctx, "fcall", s.script.function, jobs); err != nil {
				err = cmp.Or(loaded, err)
			}
		}
	}
	if err != nil {
		return "", err
	}
	s.functions.worked.Store(true)
	if s.functions.retry.next.Load() != 0 && s.functions.retry.next.Swap(0) != 0 {
		slog.Info("spillgate: Redis runs functions again")
	}
	return reply, nil
}

// sendScript does jobs by the digest of the script, or by its source if the server does not have the script.
func (s *server) sendScript(ctx context.Context, jobs []*job) (string, error) {
	reply, err := s.send(ctx, "evalsha", s.script.sha, jobs)
	if err != nil && hasCode(err, "NOSCRIPT") {
		reply, err = s.send(ctx, "eval", s.script.source, jobs)
	}
	return reply, err
}

// endsConnections reports whether the server answers another command, and ends the connection at an FCALL, as some
// proxies do at a command that they do not know. A server that goes down ends connections at any command.
func (s *server) endsConnections(ctx context.Context, probe []*job) bool {
	if err := s.round(ctx, func(ctx context.Context) error { return s.client.Time(ctx).Err() }); err != nil && !isReply(err) {
		return false
	}
	_, err := s.sendFunction(ctx, probe)
	return errors.Is(err, io.EOF)
}

// Via implements the method that core.Health.Via describes.
func (s *Store) Via() string {
	if s.decider.server.functions.retry.next.Load() != 0 {
		return "scripts"
	}
	return "functions"
}

// loadLibrary loads the library on all servers, because the client does not say which server lacks it.
func (s *server) loadLibrary(ctx context.Context) error {
	err := s.onAll(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		err := client.Process(ctx, &once{StringCmd: *redis.NewStringCmd(ctx, "function", "load", s.script.library)})
		if strings.Contains(replyOf(err), "already exists") {
			return nil
		}
		return err
	})
	if err == nil {
		s.functions.missing.Store(false)
	}
	return err
}

// onAll runs f for a client of each server that makes decisions.
func (s *server) onAll(ctx context.Context, f func(context.Context, redis.UniversalClient) error) error {
	one := func(ctx context.Context, client *redis.Client) error { return f(ctx, client) }
	switch client := s.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, one)
	case *redis.Ring:
		return client.ForEachShard(ctx, one)
	}
	return f(ctx, s.client)
}

// isNotFound reports whether err says that a server does not have the library.
func isNotFound(err error) bool { return hasCode(err, "ERR Function not found") }

// The codes of errors that say nothing about functions: the server answers a script with the same.
var faults = []string{
	"ASK", "BUSY", "CLUSTERDOWN", "CROSSSLOT", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN",
	"WRONGPASS",
}

// isFault reports whether err is an error reply with one of these codes, or the error of a function that ran, or the reply to a long command
// of a client that has not authenticated, or to a connection that the server has no room for. All other errors that an FCALL or a FUNCTION
// LOAD gets mean that the server, a proxy in front of it or the rights of the user do not allow functions. There are too many texts to know
// them.
func isFault(err error) bool {
	text := replyOf(err)
	code, _, _ := strings.Cut(text, " ")
	return slices.Contains(faults, code) || hasRun(err) || strings.Contains(text, "unauthenticated") ||
		strings.HasPrefix(text, "ERR max number of clients")
}

//go:embed lua/*.lua
var sources embed.FS

// luaFiles returns the files of lua/, each after those that it uses: the algorithms, which do not use each other, are in the middle.
func luaFiles() []string {
	first, last := []string{"number", "word", "cells", "pair"}, []string{"plan", "op", "run"}
	all, _ := sources.ReadDir("lua")
	for _, file := range all {
		if name := strings.TrimSuffix(file.Name(), ".lua"); !slices.Contains(append(first, last...), name) {
			first = append(first, name)
		}
	}
	return append(first, last...)
}

// A script is what decides in Redis. A server gets it once, in one of two ways: as a library of one function, or as a script.
//
// A library defines what the files of lua/ define when its function is called for the first time, because that needs the library
// struct, which a server does not offer while it loads a library. A script defines all of it in each run.
type script struct {
	function []byte // its name has a digest, so that two versions of this program can use one server
	library  string // for FUNCTION LOAD, with the same name

	source []byte // for EVAL
	sha    []byte // its SHA-1 digest, for EVALSHA
}

var theScript = newScript(read(luaFiles()...))

func newScript(files string) *script {
	source := []byte(files + "return run(KEYS, ARGV)\n")
	digest := sha1.Sum(source)
	sha := hex.AppendEncode(nil, digest[:])
	name := "spillgate_" + string(sha[:12])
	library := "#!lua name=" + name + "\nlocal function define()\n" + files + "return run\nend\nlocal run\nredis.register_function('" + name +
		"', function(keys, args)\n  run = run or define()\n  return run(keys, args)\nend)\n"
	return &script{function: []byte(name), library: library, source: source, sha: sha}
}

// read returns some of the files, joined.
func read(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the files are part of the program
		}
		b.Write(text)
	}
	return b.String()
}
