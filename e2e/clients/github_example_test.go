package clients

import (
	"github.com/google/go-github/v89/github"

	"github.com/spillgate/spillgate/client"
)

func gitHub() (*github.Client, error) {
	return github.NewClient(
		github.WithTransport(&client.Transport{}),
		github.WithDisableRateLimitCheck(), // or it returns an error where the Transport would wait
	)
}
