package keyfunc

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

// clientIPMistakesCases are the cases of TestClientIPMistakes.
var clientIPMistakesCases = []struct {
	why    string
	config ClientIP
	want   string // in the error; "" for none
}{
	{"the zero value is RemoteIP", ClientIP{}, ""},
	{"the most", ClientIP{Trusted: prefixes("10.0.0.0/8"), Hops: 32, IPv6Bits: 128}, ""},
	{"32 bits", ClientIP{IPv6Bits: 32}, ""},
	{"half of IPv4 is odd but not all", ClientIP{Trusted: prefixes("0.0.0.0/1", "::ffff:128.0.0.0/97")}, ""},
	{"IPv6 without the mapped part", ClientIP{Trusted: prefixes("2000::/3", "64:ff9b::/96", "::1/128", "::/96")}, ""},
	{"all of IPv4", ClientIP{Trusted: prefixes("0.0.0.0/0")}, "Trusted[0] must not contain all IPv4 addresses, got 0.0.0.0/0"},
	{"all of IPv4, written otherwise", ClientIP{Trusted: prefixes("10.0.0.0/8", "1.2.3.4/0")}, "Trusted[1]"},
	{"all of IPv6", ClientIP{Trusted: prefixes("::/0")}, "got ::/0"},
	{"all mapped", ClientIP{Trusted: prefixes("::ffff:0:0/96")}, "got ::ffff:0.0.0.0/96"},
	{"all mapped and more", ClientIP{Trusted: prefixes("::ffff:10.0.0.0/95")}, "got ::ffff:10.0.0.0/95"},
	{"all mapped and much more", ClientIP{Trusted: prefixes("::/64")}, "got ::/64"},
	{"no prefix", ClientIP{Trusted: make([]netip.Prefix, 1)}, "Trusted[0] must be a prefix, got invalid Prefix"},
	{"negative hops", ClientIP{Hops: -1}, "Hops must be between 0 and 32, got -1"},
	{"hops that are never examined", ClientIP{Hops: 33}, "got 33"},
	{"few bits", ClientIP{IPv6Bits: 31}, "IPv6Bits must be 0 or between 32 and 128, got 31"},
	{"many bits", ClientIP{IPv6Bits: 129}, "got 129"},
	{"negative bits", ClientIP{IPv6Bits: -64}, "got -64"},
	{"not a header", ClientIP{Header: "X Real IP"}, `Header must be the name of a header other than Host, got "X Real IP"`},
	{"a header with its colon", ClientIP{Header: "X-Real-IP:"}, "Header"},
	{"net/http keeps Host elsewhere", ClientIP{Header: "host"}, "Header"},
}

func TestClientIPMistakes(t *testing.T) {
	for _, row := range clientIPMistakesCases {
		t.Run(row.why, func(t *testing.T) {
			fn, err := NewClientIP(row.config)
			key, keyErr := row.config.Key(request("203.0.113.9:1"))
			if row.want == "" {
				if err != nil || keyErr != nil || key != "ip:203.0.113.9" {
					t.Errorf("got %v; %q, %v", err, key, keyErr)
				}
				return
			}
			if fn != nil || !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), row.want) {
				t.Errorf("NewClientIP: got %v, want %q", err, row.want)
			}
			if key != "" || !errors.Is(keyErr, core.ErrInvalid) || keyErr.Error() != strings.ReplaceAll(err.Error(), "spillgate: ", "") {
				t.Errorf("Key: got %q, %v, want %v", key, keyErr, err)
			}
		})
	}
}

func TestClientIPAllMistakesAtOnce(t *testing.T) {
	_, err := NewClientIP(ClientIP{Trusted: prefixes("0.0.0.0/0", "::/0"), Hops: -1, Header: " ", IPv6Bits: 1})
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 5 {
		t.Fatalf("got %d mistakes: %v", len(lines), err)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "spillgate: invalid: ClientIP.") {
			t.Errorf("got %q", line)
		}
	}
}

func TestNewClientIPCopies(t *testing.T) {
	trusted := prefixes("10.0.0.0/8")
	fn := must.Get(NewClientIP(ClientIP{Trusted: trusted}))(t)
	trusted[0] = netip.MustParsePrefix("192.0.2.0/24")
	checkKey(t, fn, request("10.0.0.1:80", xff, "198.51.100.7"), "ip:198.51.100.7")
}
