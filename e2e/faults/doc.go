// Package faults injects faults into a real Redis and checks that limiters keep enforcing their limits. Redis dies, fails over, hangs, is
// far away or returns errors, and connections are cut under load. The clients are go-redis clients with the default options.
package faults
