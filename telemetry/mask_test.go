package telemetry

import (
	"regexp"
	"testing"
)

func TestMask(t *testing.T) {
	const hash = "[0-9a-f]{12}"
	m := newMasker(false)
	for key, want := range map[string]string{
		"ip:203.0.113.9":                       `ip:203\.0\.113\.0/24`,
		"ip:2001:db8:1:2::/64":                 `ip:2001:db8:1::/48`,
		"ip:2001:db8:1:2::3/128":               `ip:2001:db8:1::/48`,
		"ip:64:ff9b:1::cb00:7109":              `ip:64:ff9b:1::/48`,
		"ip:fe80::1%eth0":                      `ip:fe80::/48`,
		"ip:unix":                              `ip:unix`,
		"ip:unresolved:10.0.0.1":               `ip:unresolved:10\.0\.0\.0/24`,
		"ip:unresolved:unix":                   `ip:unresolved:unix`,
		"ip:garbage":                           `ip:` + hash,
		"user:42":                              `user:` + hash,
		"basic:ann":                            `basic:` + hash,
		"header:x-tenant:acme":                 `header:` + hash,
		"const:all":                            `const:all`,
		"method:GET":                           `method:GET`,
		"route:/users/{id}":                    `route:/users/\{id\}`,
		`join:ip:203.0.113.9|route:/users`:     `join:ip:203\.0\.113\.0/24\|route:/users`,
		`join:user:a\|b\\|method:GET`:          `join:user:` + hash + `\|method:GET`,
		`join:join:user:a\|user:b|method:GET`:  `join:join:user:` + hash + `\|user:` + hash + `\|method:GET`,
		"ann@example.com":                      hash,
		"session:abc":                          hash,
		"ann@example.com:ip:203.0.113.9":       hash,
		"":                                     hash,
		"join:":                                `join:` + hash,
		`join:a\`:                              `join:` + hash,
		"route:/users/{id}\n<script>":          `(?s)route:.*`,
		"unix:x":                               hash,
		"ip:unresolved:ip:unresolved:10.0.0.1": `ip:unresolved:` + hash,
	} {
		if got := m.text(key); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%q: got %q, want %s", key, got, want)
		}
	}
}

// Hashes of one key are equal within a process, and differ between processes, so that nobody can look keys up in a
// table.
func TestMaskIsKeyedPerProcess(t *testing.T) {
	a, b := newMasker(false), newMasker(false)
	first, again := a.text("user:42"), a.text("user:42")
	if first != again || a.text("user:42") == a.text("user:43") || a.text("user:42") == b.text("user:42") {
		t.Error("the hash does not depend on the key and the process alone")
	}
}

// Keys with the same mask have separate rows.
func TestKeysWithOneMaskStaySeparate(t *testing.T) {
	tel := New(Options{})
	deny(tel, "r", "ip:203.0.113.1")
	deny(tel, "r", "ip:203.0.113.2")
	rows := tel.Top("r", 10)
	if len(rows) != 2 || rows[0].Key != "ip:203.0.113.0/24" || rows[1].Key != rows[0].Key || rows[0].ID == rows[1].ID {
		t.Errorf("got %+v", rows)
	}
}
