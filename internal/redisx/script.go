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
	always  = read("arithmetic", "words", "reply", "expiry", "plan")
	states  = read("tokenbucket", "fixedwindow", "slidingwindow", "slidinglog", "pair", "meter")
	general = "local function general()\n" + states + read("decide") + "return decideOne\nend\n" // made when first called

	takeScript   = newScript(always + read("bucket", "buckets") + general + read("take"))
	refundScript = newScript(always + states + read("refund"))
)

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
