package clients

import (
	"context"
	"net/http"

	"golang.org/x/oauth2"

	"github.com/spillgate/spillgate/client"
)

// authorized puts the Transport around oauth2's transport, so that it knows the limits after a token has been
// renewed.
func authorized(ctx context.Context, source oauth2.TokenSource) *http.Client {
	return &http.Client{Transport: &client.Transport{Base: oauth2.NewClient(ctx, source).Transport}}
}
