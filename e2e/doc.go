// Package e2e tests Spillgate from outside: over sockets, behind real proxies, with real clients and with a real Redis. Each folder is one
// subject, and its doc.go says what it tests. e2e is a module of its own, so that nobody else requires what it needs.
//
// The tests need the programs that `make test` lists, such as redis-server, nginx and npm, and logs that .ci/fetch-logs unpacks. A test
// that misses one of them skips, or fails where CI is set.
package e2e
