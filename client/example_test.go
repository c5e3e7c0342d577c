package client_test

import (
	"errors"
	"log"
	"net/http"
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
