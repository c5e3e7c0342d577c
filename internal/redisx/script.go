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
	plain   = read("number", "word", "reply", "limit", "expiry", "plain", "plainone")
	holding = read("plainhold", "decidehold", "plainsettle")
	general = read("lows", "tokenbucket", "fixedwindow", "block", "sliding", "inflight", "hold", "pair", "decide", "refund", "lease", "settleany")

	// rare is in one function, because each function that a run defines costs it as much as the names that it uses.
	rare = holding + onDemand("newLeaseOne", read("leaseone"), "decideLeasedOne") + onDemand("newPlainLease", read("lows", "plainlease"), "decidePlainLeased") +
		onDemand("newGeneral", general, "decideRequest, decideLeased, settleRequest")

	jobScript = newScript(plain + onDemand("newRare", rare, "decideHeld, isPlainSettle, settlePlain, newLeaseOne, newPlainLease, newGeneral") +
		read("jobs"))
	resetScript = newScript(read("number", "word", "reply", "reset"))
)

// onDemand returns the source of a function of this name, which returns what source defines as result. A script defines its
// functions anew in each run; most runs decide plain requests without holds and leases, and spend less on these than on defining
// what decides others.
func onDemand(name, source, result string) string {
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
