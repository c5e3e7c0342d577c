package keyfunc

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
)

// checkPeer4 checks that peer4 agrees with the parser on IPv4 addresses with a port, and returns "" for everything else.
func checkPeer4(t *testing.T, remote string) {
	t.Helper()
	want := ""
	if a, ok := parseHost(remote); ok && a.ip.Is4() && strings.Count(remote, ":") == 1 { // a mapped address has more
		want = a.key("ip:", prefixBits)
	}
	expect.Equal(t, peer4(remote), want, "remote %q", remote)
}

func TestPeer4(t *testing.T) {
	for _, remote := range []string{
		"203.0.113.9:4000", "203.0.113.9", "0.0.0.0:0", "255.255.255.255:65535", "1.2.3.4:65536", "1.2.3.4:", "1.2.3.4:080",
		"1.2.3.4x", "1.2.3.4:x", "1.2.3.4 ", "1.2.3.4.5:1", "1.2.3.4.", "1.2.3:1", "1.2.3.", "1..3.4", ".1.2.3", "1.2.3.256:1",
		"1.2.3.1234:1", "18446744073709551617.2.3.4:1", "1.2.3.04:1", "1.2.3.00:1", "01.2.3.4:1", "1.2.3.4:1:1", "1.2.3.4%a", "::ffff:1.2.3.4", "[1.2.3.4]:1", "", "1", "@",
	} {
		checkPeer4(t, remote)
	}
	for range 20_000 {
		checkPeer4(t, garbled4())
	}
}

// garbled4 returns an IPv4 address with a port in which one byte is replaced.
func garbled4() string {
	var b []byte
	for i := range 4 {
		b = append(strconv.AppendInt(b, rand.Int64N(260), 10), ".:"[i/3])
	}
	b = strconv.AppendInt(b, rand.Int64N(70_000), 10)
	const replacements = "0123456789.:[]%ax "
	b[rand.IntN(len(b))] = replacements[rand.IntN(len(replacements))]
	return string(b)
}

func FuzzPeer4(f *testing.F) {
	for _, s := range []string{"203.0.113.9:4000", "1.2.3.04", "1.2.3.4:99999", "256.1.1.1", "[::1]:1"} {
		f.Add(s)
	}
	f.Fuzz(checkPeer4)
}
