package client_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/spillgate/spillgate/client"
)

func ExampleTransport() {
	c := &http.Client{Transport: &client.Transport{MaxWait: time.Minute}}
	resp, err := c.Get("https://api.github.com/repos/golang/go/issues")
	var limited *client.LimitedError
	if errors.As(err, &limited) {
		log.Printf("nothing was sent: try again at %v", limited.Until)
		return
	}
	if err != nil {
		log.Print(err)
		return
	}
	defer resp.Body.Close()
}

// Key includes a credential that is in a field of its own.
func ExampleTransport_key() {
	_ = &client.Transport{Key: func(r *http.Request) string {
		return r.URL.Host + " " + r.Header.Get("X-Api-Key")
	}}
}

// A wait that is longer than MaxWait is an error at once; nothing is sent.
func ExampleLimitedError() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	c := &http.Client{Transport: &client.Transport{MaxWait: time.Second}}
	for range 2 {
		resp, err := c.Get(server.URL)
		var limited *client.LimitedError
		if errors.As(err, &limited) {
			fmt.Println("wait for", time.Until(limited.Until).Round(time.Hour))
			continue
		}
		fmt.Println(resp.StatusCode)
		_ = resp.Body.Close()
	}
	// Output:
	// 429
	// wait for 1h0m0s
}
