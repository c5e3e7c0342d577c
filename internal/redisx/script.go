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
	takeScript   = newScript("take")
	refundScript = newScript("refund")
)

// newScript joins what all scripts share with the file of a job.
func newScript(job string) script {
	var b strings.Builder
	for _, name := range []string{
		"arithmetic", "tokenbucket", "fixedwindow", "slidingwindow", "slidinglog", "pair", "meter", job,
	} {
		text, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the files are part of the program
		}
		b.Write(text)
	}
	digest := sha1.Sum([]byte(b.String()))
	return script{source: b.String(), sha: hex.EncodeToString(digest[:])}
}
