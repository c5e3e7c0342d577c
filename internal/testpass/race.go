//go:build race

package testpass

const race = true
