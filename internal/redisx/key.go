package redisx

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strings"
)

// maxPlain is the length in bytes of the longest identity that is stored without hashing.
const maxPlain = 128

// hashedBytes is how many bytes of a digest represent an identity: 128 bits.
const hashedBytes = 16

// seed is for the hashes of keys in this process.
var seed = maphash.MakeSeed()

// A layout makes the keys under which pairs are stored:
//
//	<prefix>:7:{<identity>}:<rule>
//
// 7 is the version of the format. The braces are the hash tag of a Redis Cluster, so that all keys of one identity
// share a slot. A byte that could end the tag or the part early is written %XX, as in a URL. An empty identity is %. A
// hashed identity is # and hex digits, and an identity hashed with a secret is * and hex digits; no other identity
// starts with # or *. See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags.
type layout struct {
	start  string // up to and including the opening brace
	secret []byte

	wall testClock // of this process
}

func newLayout(prefix string, secret []byte) *layout {
	return &layout{start: prefix + ":7:{", secret: secret}
}

// key returns the key of a pair.
func (l *layout) key(rule, identity string) string {
	var buf [256]byte
	return string(l.appendKey(buf[:0], rule, identity))
}

func (l *layout) appendKey(b []byte, rule, identity string) []byte {
	b = append(b, l.start...)
	b = l.appendIdentity(b, identity)
	b = append(b, '}', ':')
	return appendPlain(b, ruleName(rule), ':')
}

func ruleName(name string) string { return cmp.Or(name, "default") }

func (l *layout) appendIdentity(b []byte, identity string) []byte {
	switch {
	case l.secret != nil:
		mac := hmac.New(sha256.New, l.secret)
		mac.Write([]byte(identity))
		return hex.AppendEncode(append(b, '*'), mac.Sum(nil)[:hashedBytes])
	case len(identity) > maxPlain:
		digest := sha256.Sum256([]byte(identity))
		return hex.AppendEncode(append(b, '#'), digest[:hashedBytes])
	case identity == "":
		return append(b, '%')
	case identity[0] == '#' || identity[0] == '*':
		return appendPlain(appendHex(b, identity[0]), identity[1:], 0)
	}
	return appendPlain(b, identity, 0)
}

// appendPlain appends s and escapes bytes that are not printable ASCII, percent signs, braces and separator.
func appendPlain(b []byte, s string, separator byte) []byte {
	from := 0 // what comes before is in b
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '%' || c == '{' || c == '}' || c == separator {
			b = appendHex(append(b, s[from:i]...), c)
			from = i + 1
		}
	}
	return append(b, s[from:]...)
}

func appendHex(b []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(b, '%', digits[c>>4], digits[c&15])
}

// tagOf returns what is between the braces of a key that a layout made.
func (l *layout) tagOf(key string) string {
	tag, _, _ := strings.Cut(key[len(l.start):], "}")
	return tag
}
