// Package modules imports Spillgate as a user does: from a module proxy, into programs with old versions of everything. It checks that
// no version changes, and that programs require and link little.
package modules
