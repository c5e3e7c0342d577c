package keyfunc_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/spillgate/spillgate/keyfunc"
)

// from returns a request from an address, with header fields.
func from(addr string, fields ...string) *http.Request {
	r := httptest.NewRequest("GET", "/users/42", nil)
	r.RemoteAddr = addr
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// The peer of the connection. Clients with IPv6 are their /64.
func ExampleRemoteIP() {
	fmt.Println(keyfunc.RemoteIP(from("203.0.113.9:41000", "X-Forwarded-For", "192.0.2.1")))
	fmt.Println(keyfunc.RemoteIP(from("[2001:db8:1:2::5]:41000")))
	// Output:
	// ip:203.0.113.9 <nil>
	// ip:2001:db8:1:2::/64 <nil>
}

// In AWS Lambda an adapter sets RemoteAddr, without a port, to what the platform says.
func ExampleRewrittenIP() {
	fmt.Println(keyfunc.RewrittenIP(from("203.0.113.9")))
	// Output: ip:203.0.113.9 <nil>
}

// The key is a hash of the secret.
func ExampleAPIKey() {
	key := keyfunc.APIKey("X-Api-Key")
	fmt.Println(key(from("203.0.113.9:41000", "X-Api-Key", "correct horse battery staple")))
	fmt.Println(key(from("203.0.113.9:41000")))
	// Output:
	// key:c4bbcb1fbec99d65bf59d85c8cb62ee2 <nil>
	//  API key in header X-Api-Key: no key
}

func ExampleBearer() {
	_, err := keyfunc.Bearer(from("203.0.113.9:41000", "Authorization", "Bearer"))
	fmt.Println(err)
	key, err := keyfunc.Bearer(from("203.0.113.9:41000", "Authorization", "Bearer mF_9.B5f-4.1JqM"))
	fmt.Println(key[:7], err)
	// Output:
	// bearer token: bad key: malformed
	// bearer: <nil>
}

func ExampleBasicUser() {
	r := from("203.0.113.9:41000")
	r.SetBasicAuth("ann", "secret")
	fmt.Println(keyfunc.BasicUser(r))
	// Output: basic:ann <nil>
}

func ExampleCookie() {
	key, err := keyfunc.Cookie("session")(from("203.0.113.9:41000", "Cookie", "session=Zm9vYmFy"))
	fmt.Println(key[:15], err)
	// Output: cookie:session: <nil>
}

// One limit for all clients together.
func ExampleConst() {
	fmt.Println(keyfunc.Const("all")(from("203.0.113.9:41000")))
	// Output: const:all <nil>
}

// Each client may read and write at rates of their own.
func ExampleMethod() {
	fmt.Println(keyfunc.Join(keyfunc.RemoteIP, keyfunc.Method)(from("203.0.113.9:41000")))
	// Output: join:ip:203.0.113.9|method:GET <nil>
}

// Each route is limited by itself: by its pattern, whatever the path.
func ExamplePattern() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(keyfunc.Pattern(r))
	})
	mux.ServeHTTP(httptest.NewRecorder(), from("203.0.113.9:41000"))
	// Output: route:/users/{id} <nil>
}
