// Package docs tests what the documentation shows for other programs, such as queries and alerts of Prometheus. The folders below hold the
// programs and the tests that the documentation shows, and run them.
package docs
