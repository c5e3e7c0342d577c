package calls

import (
	"time"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/core"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
)

// ingest lets each device open ten streams a minute and send 100 messages a second, in all its streams together. A device that
// sends more is slowed down.
func ingest(device core.KeyFunc, opts ...core.Option) (*grpc.Server, error) {
	streams, err := core.New([]core.Rule{{Name: "streams", Key: device, Limits: []core.Limit{core.PerMinute(10)}}}, opts...)
	if err != nil {
		return nil, err
	}
	messages, err := core.New([]core.Rule{{Name: "messages", Key: device, Limits: []core.Limit{core.PerSecond(100)}, MaxWait: time.Minute}}, opts...)
	if err != nil {
		return nil, err
	}
	return grpc.NewServer(grpc.ChainStreamInterceptor(grpclimit.Stream(streams, grpclimit.WithMessages(messages)))), nil
}
