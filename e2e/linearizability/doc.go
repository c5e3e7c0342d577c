// Package linearizability checks that the stores are linearizable: calls that take effect one after the other, each at some instant between
// its start and its end, explain the results of concurrent callers. Porcupine (https://github.com/anishathalye/porcupine) searches for
// the explanation; internal/oracle defines what one call does.
package linearizability
