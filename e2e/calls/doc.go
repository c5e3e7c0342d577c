// Package calls tests gRPC and Connect: each adapter limits their calls and responds to a denied call in their protocols. The clients
// and servers are the ones that people use, in Go, Node and Python, some of them behind nginx, HAProxy or Caddy.
package calls
