// Package testing has the tests that docs/testing.md shows.
package testing
