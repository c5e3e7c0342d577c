//go:build !before

package main

import "github.com/spillgate/spillgate/core"

// calendarDay returns a limit of n requests per day of a time zone.
func calendarDay(n int) core.Limit { return core.PerDay(n).In("Europe/Berlin") }
