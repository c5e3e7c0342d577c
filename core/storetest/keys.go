package storetest

import (
	"fmt"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// pairs are rules and keys that an encoding may take for each other.
var pairs = []core.Claim{
	{Rule: "a", Key: "b:c"}, {Rule: "a:b", Key: "c"}, {Rule: "a", Key: "b:c:"}, {Rule: "a:", Key: "b:c"},
	{Rule: "a", Key: "b"}, {Rule: "b", Key: "a"}, {Rule: "ab", Key: "c"}, {Rule: "a", Key: "bc"},
	{Rule: "a", Key: "}"}, {Rule: "a", Key: "{"}, {Rule: "a", Key: "{}"}, {Rule: "a", Key: "}{"}, {Rule: "{a}", Key: "a"},
	{Rule: "a", Key: "\x00"}, {Rule: "a", Key: "\x00\x00"}, {Rule: "a", Key: "b\x00c"}, {Rule: "a", Key: "b\nc"},
	{Rule: "a", Key: "b\r\nc"}, {Rule: "a", Key: "b c"}, {Rule: "a", Key: " b"}, {Rule: "a", Key: "b "},
	{Rule: "a", Key: "é"}, {Rule: "a", Key: "e\u0301"}, {Rule: "a", Key: "É"}, {Rule: "a", Key: "\xe9"}, {Rule: "a", Key: "\xff"},
	{Rule: "a", Key: "日本"}, {Rule: "a", Key: "日本語"}, {Rule: "a", Key: "\\x00"}, {Rule: "a", Key: "%00"},
	{Rule: "a", Key: "*"}, {Rule: "a", Key: "?"}, {Rule: "a", Key: "a.1"}, {Rule: "a", Key: "a,1"}, {Rule: "a", Key: `"a"`},
	{Rule: "a", Key: "ip:127.0.0.1"}, {Rule: "a", Key: "user:127.0.0.1"}, {Rule: "a", Key: "127.0.0.1"},
	{Rule: "a", Key: "B"}, {Rule: "A", Key: "b"}, {Rule: "a", Key: strings.Repeat("x", 127)},
	{Rule: "a", Key: strings.Repeat("x", 128)}, {Rule: "a", Key: strings.Repeat("x", 129)}, {Rule: "a", Key: strings.Repeat("x", 128) + "y"},
	{Rule: "a", Key: strings.Repeat("x", 1<<20)}, {Rule: "a", Key: strings.Repeat("x", 1<<20-1) + "y"},
	{Rule: strings.Repeat("a", 200), Key: "b"}, {Rule: strings.Repeat("a", 201), Key: "b"},
}

var keyRows = []row{
	{"rules and keys of any bytes never share state", func(s *suite) {
		limits := core.MustParseLimits("1/d, 1/d;sliding-log")
		for _, c := range pairs {
			c.Limits = limits
			if r := s.take(c); !r[0].Allowed || !r[1].Allowed || r[0].Remaining != 0 {
				s.Errorf("rule %s, key %s has met another: %+v", short(c.Rule), short(c.Key), r)
			}
		}
		for _, c := range pairs {
			c.Limits = limits
			if r := s.take(c); r[0].Allowed || r[1].Allowed {
				s.Errorf("rule %s, key %s is not remembered: %+v", short(c.Rule), short(c.Key), r)
			}
		}
	}},
	{"a reset of one key never reaches another", func(s *suite) {
		limits := core.MustParseLimits("1/d, 1/d;sliding-log")
		for _, c := range pairs {
			c.Limits = limits
			s.take(c)
		}
		for i, c := range pairs[1:] {
			s.reset(pairs[i].Rule, pairs[i].Key)
			c.Limits = limits
			if r := s.take(peek(c)); r[0].Allowed || r[1].Allowed {
				s.Errorf("rule %s, key %s was forgotten with another: %+v", short(c.Rule), short(c.Key), r)
			}
		}
	}},
}

func short(s string) string {
	if len(s) > 20 {
		return fmt.Sprintf("%q.. of %d bytes", s[:20], len(s))
	}
	return fmt.Sprintf("%q", s)
}
