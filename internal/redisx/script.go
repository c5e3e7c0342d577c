package redisx

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var sources embed.FS

// luaFiles are the files of lua/, each after those that it uses.
var luaFiles = []string{"number", "word", "cells", "pair", "bucket", "window", "sliding", "log", "plan", "op", "run"}

// A script is what decides in Redis. A server gets it once, in one of two ways: as a library of one function, or as a script.
//
// A library defines what the files of lua/ define when its function is called for the first time, because that needs the library
// struct, which a server does not offer while it loads a library. A script defines all of it in each run.
type script struct {
	function string // its name has a digest, so that two versions of this program can use one server
	library  string // for FUNCTION LOAD, with the same name

	source string // for EVAL
	sha    string // its SHA-1 digest, for EVALSHA
}

var theScript = newScript(read(luaFiles...))

func newScript(files string) *script {
	s := &script{source: files + "return run(KEYS, ARGV)\n"}
	digest := sha1.Sum([]byte(s.source))
	s.sha = hex.EncodeToString(digest[:])
	s.function = "spillgate_" + s.sha[:12]
	s.library = "#!lua name=" + s.function + "\nlocal function define()\n" + files + "return run\nend\nlocal run\nredis.register_function('" + s.function +
		"', function(keys, args)\n  run = run or define()\n  return run(keys, args)\nend)\n"
	return s
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
