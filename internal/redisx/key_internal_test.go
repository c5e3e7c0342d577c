package redisx

import (
	"encoding/hex"
	"strings"
	"testing"
)

// decode returns the rule and the identity of key, or false if they were hashed.
func decode(l layout, key string) (rule, identity string, ok bool) {
	identity, rule, _ = strings.Cut(strings.TrimPrefix(key, l.start), "}:")
	if identity != "" && (identity[0] == '#' || identity[0] == '*') {
		return "", "", false
	}
	if identity == "%" {
		identity = ""
	}
	return unescape(rule), unescape(identity), true
}

func unescape(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			c, _ := hex.DecodeString(s[i+1 : i+3])
			b, i = append(b, c[0]), i+2
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

// clusterTag returns the part of key that Redis hashes to a slot.
func clusterTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, ok := strings.Cut(rest, "}")
	if !ok || tag == "" {
		return key
	}
	return tag
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"", "}", "{", "{}", "ip:1.2.3.4", "ip:2001:db8::/64", "%", "%7D", "#", "*x", ":log", "\x00\r\n", "ä", strings.Repeat("x", 129)} {
		f.Add("rule", s)
		f.Add(s, "ip:1")
	}
	f.Fuzz(func(t *testing.T, rule, identity string) {
		l := newLayout("spillgate", nil)
		key := l.key(rule, identity)
		for i := range len(key) {
			if key[i] <= ' ' || key[i] > '~' {
				t.Fatalf("%q is not plain", key)
			}
		}
		if clusterTag(key) != clusterTag(l.key("other", identity)) || clusterTag(key) != l.tagOf(key) {
			t.Errorf("the keys of %q are in different slots", identity)
		}
		gotRule, gotIdentity, ok := decode(l, key)
		if ok != (len(identity) <= maxPlain) {
			t.Fatalf("%q is hashed: %v", key, !ok)
		}
		if rule == "" {
			rule = "default"
		}
		if ok && (gotRule != rule || gotIdentity != identity) {
			t.Errorf("%q decodes to %q, %q", key, gotRule, gotIdentity)
		}
	})
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, row := range []struct{ why, rule, identity, want string }{
		{"ordinary identities stay readable", "login", "ip:203.0.113.9", "p:7:{ip:203.0.113.9}:login"},
		{"so do networks", "", "ip:2001:db8:1:2::/64", "p:7:{ip:2001:db8:1:2::/64}:default"},
		{"a brace does not end the tag", "r", "}", "p:7:{%7D}:r"},
		{"an empty tag would be none", "r", "", "p:7:{%}:r"},
		{"a percent sign is not taken for an escape", "r", "%7D", "p:7:{%257D}:r"},
		{"a colon in a rule does not separate", "r:log", "a", "p:7:{a}:r%3Alog"},
		{"nor does a tag begin in a rule", "{", "a", "p:7:{a}:%7B"},
		{"all that is printable stays", "r", "!a~", "p:7:{!a~}:r"},
		{"a space is not", "r", "a b\x7f", "p:7:{a%20b%7F}:r"},
		{"what looks hashed is not", "r", "#00", "p:7:{%2300}:r"},
		{"nor what looks keyed", "r", "*00", "p:7:{%2A00}:r"},
		{"128 bytes are stored as they are", "r", long, "p:7:{" + long + "}:r"},
		{"129 are not", "r", long + "x", "p:7:{#0ec9eb33e74510bcdd1f2ea55206e82f}:r"},
	} {
		l := newLayout("p", nil)
		if got := l.key(row.rule, row.identity); got != row.want {
			t.Errorf("%s: %s, want %s", row.why, got, row.want)
		}
	}
}

func TestSecretHidesIdentities(t *testing.T) {
	one, other := newLayout("p", []byte("one")), newLayout("p", []byte("other"))
	if a, b := one.key("r", "ann"), other.key("r", "ann"); a == b || strings.Contains(a, "ann") {
		t.Errorf("%s and %s", a, b)
	}
	if one.tagOf(one.key("r", "ann")) != one.tagOf(one.key("s", "ann")) {
		t.Error("the rules of an identity are in different slots")
	}
	if one.key("r", "") == one.key("r", "ann") {
		t.Error("two identities have one key")
	}
}

func TestSlotsMatchRedis(t *testing.T) {
	if got := slotOf("123456789"); got != 0x31C3 {
		t.Errorf("CRC-16 of the check string is %#x, want 0x31C3", got)
	}
}
