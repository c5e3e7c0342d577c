// Package obey drives limited servers with common HTTP clients over client.Transport, on real sockets.
package obey
