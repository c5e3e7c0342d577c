// Package e2e tests Spillgate from outside: over sockets, behind a real proxy, with the clients that people use and with a
// real Redis. It is a module of its own, so that what it needs for that is not required of anybody else.
//
// It needs redis-server and nginx, and for one test each npm and logs that .ci/fetch-logs unpacks. A test that misses
// one of them skips, or fails where CI is set.
package e2e
