package telemetry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
)

// A masker hides the identity in keys. Its secret is different in each process.
type masker struct {
	off    bool
	secret [32]byte
}

func newMasker(off bool) masker {
	m := masker{off: off}
	_, _ = rand.Read(m.secret[:]) // never fails
	return m
}

// id returns a short text for the hash of a key.
func (m *masker) id(hash uint64) string { return m.hash(binary.BigEndian.AppendUint64(nil, hash)) }

// hash returns 12 hexadecimal digits.
func (m *masker) hash(b []byte) string {
	mac := hmac.New(sha256.New, m.secret[:])
	mac.Write(b)
	return hex.EncodeToString(mac.Sum(nil)[:6])
}

// key returns the masked text of the key of e. If the key is longer than 128 bytes, the text has only its kind and a
// hash.
func (m *masker) key(e *entry) string {
	switch {
	case !m.off && e.length > maxKey:
		return kindOf(string(e.key)) + m.id(e.hash)
	case !m.off:
		return m.text(string(e.key))
	case e.length > maxKey:
		return string(e.key) + "…"
	}
	return string(e.key)
}

// text masks a key of package keyfunc. It cuts addresses to their /24 or /48, and keeps keys that name no client. Of
// all other keys, it keeps only the kind and adds a hash.
func (m *masker) text(key string) string {
	kind := kindOf(key)
	rest := key[len(kind):]
	switch kind {
	case "ip:":
		if hop, ok := strings.CutPrefix(rest, "unresolved:"); ok {
			return "ip:unresolved:" + m.address(hop)
		}
		return kind + m.address(rest)
	case "route:", "method:", "const:":
		return key
	case "join:":
		elements := splitJoined(rest)
		for i := range elements {
			elements[i] = m.text(elements[i])
		}
		return kind + strings.Join(elements, "|")
	}
	return kind + m.hash([]byte(key))
}

// address masks an address or a prefix.
func (m *masker) address(s string) string {
	if s == "unix" {
		return s
	}
	text, bits, _ := strings.Cut(s, "/")
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return m.hash([]byte(s + bits))
	}
	length := 48
	if ip.Is4() {
		length = 24
	}
	return netip.PrefixFrom(ip, length).Masked().String()
}

// kindOf returns the kind of key with its colon, if it is one of package keyfunc, else "". Any other text in front of a
// colon may come from a client.
func kindOf(key string) string {
	i := strings.IndexByte(key, ':') + 1
	switch kind := key[:i]; kind {
	case "ip:", "user:", "key:", "bearer:", "basic:", "cookie:", "header:", "method:", "route:", "const:", "join:", "hash:":
		return kind
	}
	return ""
}

// splitJoined returns the elements of a key of keyfunc.Join, unescaped.
func splitJoined(s string) []string {
	elements := []string{""}
	for i := 0; i < len(s); i++ {
		last := &elements[len(elements)-1]
		switch {
		case s[i] == '|':
			elements = append(elements, "")
		case s[i] == '\\' && i+1 < len(s):
			i++
			*last += s[i : i+1]
		default:
			*last += s[i : i+1]
		}
	}
	return elements
}
