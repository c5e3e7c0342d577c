package clients

import (
	"github.com/go-resty/resty/v2"

	"github.com/spillgate/spillgate/client"
)

func restful() *resty.Client {
	return resty.New().SetTransport(&client.Transport{})
}
