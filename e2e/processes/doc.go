// Package processes tests several processes that share one Redis: together they admit what a limit allows, hold, settle, wait in one order,
// grant and lease, also after one of them was killed.
package processes
