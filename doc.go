// Package spillgate is the front page of a rate limiter for net/http, chi, gin, echo, grpc-go and MCP. This package has no
// code; use the packages below.
//
// This program limits each client to 100 requests per minute:
//
//	package main
//
//	import (
//		"log"
//		"net/http"
//
//		"github.com/spillgate/spillgate/core"
//		"github.com/spillgate/spillgate/keyfunc"
//		"github.com/spillgate/spillgate/middleware/stdlib"
//	)
//
//	func main() {
//		mux := http.NewServeMux()
//		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("hello\n")) })
//
//		limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
//		log.Fatal(http.ListenAndServe("127.0.0.1:8080", stdlib.New(limiter)(mux)))
//	}
//
// # Packages, in the order to read them
//
//   - [github.com/spillgate/spillgate/core]: rules, limits and decisions. Start here.
//   - [github.com/spillgate/spillgate/keyfunc]: keys that identify the sender of a request.
//   - [github.com/spillgate/spillgate/middleware/stdlib]: the adapter for net/http. The adapters for
//     [github.com/spillgate/spillgate/middleware/chi], [github.com/spillgate/spillgate/middleware/gin],
//     [github.com/spillgate/spillgate/middleware/echo] (v4) and [github.com/spillgate/spillgate/middleware/echov5] have
//     the same names. [github.com/spillgate/spillgate/middleware/grpc] is for servers of grpc-go.
//   - [github.com/spillgate/spillgate/middleware/mcp]: the adapter for servers of the Model Context Protocol.
//   - [github.com/spillgate/spillgate/headers]: response headers that tell a client its limits.
//   - [github.com/spillgate/spillgate/core/redisstore]: limits that several processes share through Redis.
//   - [github.com/spillgate/spillgate/rulefile]: rules from a YAML file, reloaded when it changes.
//   - [github.com/spillgate/spillgate/telemetry]: counts, denied keys and a log, for Prometheus and OpenTelemetry.
//   - [github.com/spillgate/spillgate/dashboard]: a live page that shows the telemetry.
//   - [github.com/spillgate/spillgate/client]: an http.RoundTripper that obeys the limits of other servers.
//   - [github.com/spillgate/spillgate/core/storetest]: tests for a store that you write.
package spillgate
