package redisx

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// zonePrefix begins the name of the time zone of an instant that several servers decided at.
const zonePrefix = "redis"

// instantOf returns when parts were decided: the earliest of their instants. Servers of a Redis Cluster have a clock each,
// and a refund needs that of the server that charged. The others therefore travel along, as the name of a time zone that
// is UTC otherwise: for each key a hash of it and how many microseconds later it was.
func instantOf(parts []part) time.Time {
	first := parts[0].at
	for i := range parts {
		first = min(first, parts[i].at)
	}
	at := time.UnixMicro(first)
	if len(parts) == 1 {
		return at
	}
	name := []byte(zonePrefix)
	for i := range parts {
		for _, key := range parts[i].keys {
			name = strconv.AppendUint(append(name, ' '), hashOf(key), 36)
			name = strconv.AppendInt(append(name, '+'), parts[i].at-first, 10)
		}
	}
	return at.In(time.FixedZone(string(name), 0))
}

// chargedAt returns when what key names was charged by a take at an instant that instantOf returned. It is between 0 and
// maxExact, as scripts need it.
func chargedAt(at time.Time, key string) int64 {
	µs := at.UnixMicro()
	if several(at) {
		want := strconv.FormatUint(hashOf(key), 36)
		for _, word := range strings.Fields(at.Location().String())[1:] {
			if hash, later, _ := strings.Cut(word, "+"); hash == want {
				n, _ := strconv.ParseInt(later, 10, 64)
				µs += n
				break
			}
		}
	}
	return min(max(µs, 0), maxExact)
}

// several reports whether at says more than one instant.
func several(at time.Time) bool { return strings.HasPrefix(at.Location().String(), zonePrefix+" ") }

func hashOf(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}
