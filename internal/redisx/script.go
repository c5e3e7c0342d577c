package redisx

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/*.lua
var sources embed.FS

// A script is sent by its SHA-1 digest. Only a server that does not know it gets its source.
type script struct {
	source string
	sha    string
}

var (
	head    = read("head", "words", "reply", "expiry", "plan")
	states  = read("arithmetic", "tokenbucket", "fixedwindow", "slidingwindow", "slidinglog", "pair", "meter")
	buckets = lazily("buckets", read("buckets"), "takePlain")
	general = lazily("general", states+read("decide"), "decideOne")

	takeScript   = newScript(head + read("bucket") + buckets + general + read("take"))
	refundScript = newScript(head + states + read("refund"))
)

// lazily returns a function that makes what source defines and returns one thing of it. To make functions takes a server
// time, and most runs need few.
func lazily(name, source, result string) string {
	return "local function " + name + "()\n" + source + "return " + result + "\nend\n"
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

func newScript(source string) script {
	digest := sha1.Sum([]byte(source))
	return script{source: source, sha: hex.EncodeToString(digest[:])}
}
