package clients

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/client"
)

// obeying returns a client that waits up to a minute instead of being denied.
func obeying() *http.Client {
	return &http.Client{Transport: &client.Transport{
		MaxWait: time.Minute,
		OnWait:  func(r *http.Request, d time.Duration) { log.Printf("waiting %v for %s", d, r.URL.Host) },
	}}
}

func get(c *http.Client, url string) (*http.Response, error) {
	resp, err := c.Get(url)
	var limited *client.LimitedError
	if errors.As(err, &limited) {
		return nil, fmt.Errorf("try again at %v: %w", limited.Until, err)
	}
	return resp, err
}
