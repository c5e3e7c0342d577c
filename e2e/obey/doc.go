// Package obey drives limited servers with clients that obey: those of other people over client.Transport, on real sockets.
package obey
