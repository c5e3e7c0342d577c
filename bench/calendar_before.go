//go:build before

package main

import "github.com/spillgate/spillgate/core"

// calendarDay returns a limit of n requests per day in UTC: the earlier commit has no calendars.
func calendarDay(n int) core.Limit { return core.PerDay(n).Using(core.FixedWindow) }
