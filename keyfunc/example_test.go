package keyfunc_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// Behind one proxy in 10.0.0.0/24 that appends to X-Forwarded-For. Elements that the client wrote are not believed.
func ExampleClientIP() {
	client, err := keyfunc.NewClientIP(keyfunc.ClientIP{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
	})
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.5:41000"
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 203.0.113.9")
	fmt.Println(client(r))

	r.RemoteAddr = "198.51.100.7:41000" // not the proxy: headers are not read
	fmt.Println(client(r))
	// Output:
	// ip:203.0.113.9 <nil>
	// ip:198.51.100.7 <nil>
}

// All mistakes are reported at once.
func ExampleNewClientIP() {
	_, err := keyfunc.NewClientIP(keyfunc.ClientIP{
		Trusted:  []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
		IPv6Bits: 16,
	})
	fmt.Println(err)
	// Output:
	// spillgate: invalid: ClientIP.Trusted[0] must not contain all IPv4 addresses, got 0.0.0.0/0; want the networks of your proxies
	// spillgate: invalid: ClientIP.IPv6Bits must be 0 or between 32 and 128, got 16
}

// Customers have one key wherever they are, all other clients have one per address.
func ExampleFirst() {
	key := keyfunc.First(keyfunc.APIKey("X-Api-Key"), keyfunc.RemoteIP)
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "203.0.113.9:41000"
	fmt.Println(key(r))
	r.Header.Set("X-Api-Key", "correct horse battery staple")
	fmt.Println(key(r))
	r.Header.Add("X-Api-Key", "another one") // ambiguous: no fallback to the address
	fmt.Println(key(r))
	// Output:
	// ip:203.0.113.9 <nil>
	// key:c4bbcb1fbec99d65bf59d85c8cb62ee2 <nil>
	//  API key in header X-Api-Key: bad key: sent more than once
}

// Each client has an allowance of its own on each route, or on each method of each route.
func ExampleJoin() {
	route := keyfunc.Join(keyfunc.RemoteIP, keyfunc.Pattern)
	operation := keyfunc.Join(keyfunc.RemoteIP, keyfunc.Method, keyfunc.Pattern)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /users/{id}", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(route(r))
		fmt.Println(operation(r))
	})
	r := httptest.NewRequest("POST", "/users/42", nil)
	r.RemoteAddr = "203.0.113.9:41000"
	mux.ServeHTTP(httptest.NewRecorder(), r)
	// Output:
	// join:ip:203.0.113.9|route:/users/{id} <nil>
	// join:ip:203.0.113.9|method:POST|route:/users/{id} <nil>
}

// Login names are personal and easily guessed, so they should not be readable in a store.
func ExampleHash() {
	name := func(r *http.Request) (string, error) {
		if name := strings.ToLower(r.FormValue("name")); name != "" {
			return "login:" + name, nil
		}
		return "", fmt.Errorf("login name: %w", core.ErrNoKey)
	}
	key := keyfunc.Hash([]byte("32 random bytes from your config"), name)
	fmt.Println(key(httptest.NewRequest("GET", "/login?name=Ann", nil)))
	_, err := key(httptest.NewRequest("GET", "/login", nil))
	fmt.Println(err, errors.Is(err, core.ErrNoKey))
	// Output:
	// hash:541d33b36435965b6425a99cccee20c9 <nil>
	// login name: no key true
}

// The authentication middleware has verified the id and put it in the context.
func ExampleUser() {
	type userID struct{}
	user := keyfunc.User(func(r *http.Request) (string, bool) {
		id, ok := r.Context().Value(userID{}).(string)
		return id, ok
	})
	_, err := user(httptest.NewRequest("GET", "/", nil))
	fmt.Println(err)
	// Output: user: no key
}

// A user agent distinguishes well-behaved clients. Clients can send any value, so a rule by address bounds the others.
func ExampleHeader() {
	agent := keyfunc.Join(keyfunc.Header("User-Agent"), keyfunc.RemoteIP)
	limiter := core.Must(core.New([]core.Rule{
		{Name: "agent", Key: agent, Limits: []core.Limit{core.PerMinute(60)}},
		{Name: "address", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerMinute(2)}},
	}))
	for i := range 3 {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "203.0.113.9:41000"
		r.Header.Set("User-Agent", fmt.Sprint("forged/", i))
		d, err := limiter.Check(r)
		fmt.Println(d.Allowed, err)
	}
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
}

// The edge has verified the address and sends it in a header of its own.
func ExampleAddress() {
	key := keyfunc.Address(func(r *http.Request) string { return r.Header.Get("X-Edge-Client") })
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Edge-Client", "2001:db8:1:2:3:4:5:6")
	fmt.Println(key(r))
	// Output: ip:2001:db8:1:2::/64 <nil>
}
