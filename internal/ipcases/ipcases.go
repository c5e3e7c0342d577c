// Package ipcases holds the cases of keyfunc.ClientIP for the tests of keyfunc, the adapters and e2e.
//
//	for _, c := range ipcases.All(t) {
//		key, err := keyfunc.ClientIP(c.Config).Key(request(c)) // want c.Want
//	}
package ipcases

import (
	_ "embed"
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
)

//go:embed client-ip.json
var text []byte

// A Case is a request and the key that a configuration must find in it. Want may also be "error", for status 400, or
// "invalid", for status 500.
type Case struct {
	Name       string
	Config     Config
	RemoteAddr string      `json:"remote_addr"`
	Headers    [][2]string // names and values
	Want       string
}

// A Config has the fields of keyfunc.ClientIP.
type Config struct {
	Trusted  []netip.Prefix
	Unix     bool
	Hops     int
	Header   string
	IPv6Bits int `json:"ipv6_bits"`
}

// All returns all cases.
func All(t testing.TB) (all []Case) {
	err := json.Unmarshal(text, &all)
	must.True(t, err == nil && len(all) >= 36, "%d cases, %v", len(all), err)
	return all
}

// Fields returns the header fields of c as "Name: value".
func (c *Case) Fields() (fields []string) {
	for _, h := range c.Headers {
		fields = append(fields, h[0]+": "+h[1])
	}
	return fields
}

// Status returns the status that a server must respond with.
func (c *Case) Status() int {
	switch c.Want {
	case "error":
		return 400
	case "invalid":
		return 500
	}
	return 200
}
