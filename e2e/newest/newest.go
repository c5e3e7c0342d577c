// Package newest makes the released modules part of this module, whose requirements are the newest versions of everything. Their own
// requirements are the oldest versions that work, so .ci/gotest runs their tests twice: there and here.
package newest

import (
	_ "github.com/alicebob/miniredis/v2"    // for the tests of internal/redisx
	_ "go.opentelemetry.io/otel/sdk/metric" // for the tests of telemetry/otel
	_ "go.opentelemetry.io/otel/sdk/trace"

	_ "github.com/spillgate/spillgate/core/redisstore"
	_ "github.com/spillgate/spillgate/middleware/chi"
	_ "github.com/spillgate/spillgate/middleware/echo"
	_ "github.com/spillgate/spillgate/middleware/echov5"
	_ "github.com/spillgate/spillgate/middleware/gin"
	_ "github.com/spillgate/spillgate/middleware/grpc"
	_ "github.com/spillgate/spillgate/middleware/mcp"
	_ "github.com/spillgate/spillgate/telemetry/otel"
	_ "github.com/spillgate/spillgate/telemetry/prometheus"
)
