package main

import "slices"

// A section is a group of rows under one heading of RESULTS.md.
type section struct {
	title string
	about string
	rows  []*row
}

// find returns the row of a name.
func find(name string) (*row, bool) {
	for _, s := range sections() {
		if i := slices.IndexFunc(s.rows, func(r *row) bool { return r.name == name }); i >= 0 {
			return s.rows[i], true
		}
	}
	return nil, false
}

// apart makes the entries of rows run in processes of their own.
func apart(rows ...*row) []*row {
	for _, r := range rows {
		r.apart = true
	}
	return rows
}

// sections returns every row, in the order in which they run.
func sections() []section {
	return []section{{
		title: "Deciding in memory",
		about: "The function that a program calls to decide: `Limiter.Take`, and what the other libraries export for it.",
		rows:  apart(takeRows()...),
	}, {
		title: "Serving HTTP",
		about: "The middleware of each library, within the router it is made for.",
		rows:  append(apart(slices.Concat(httpRows(), frameworkRows())...), memoryRow(), callsRow()),
	}, {
		title: "Serving HTTP over Redis",
		about: "What users run: a server, the clients and Redis, each a process of its own, over TCP on one machine.",
		rows:  socketRows(),
	}, {
		title: "Deciding in Redis",
		about: "The same function with a store in Redis. The callers are loops that ask again at once, so many of them make larger batches than " +
			"most servers do; the section above has servers.",
		rows: slices.Concat(redisRows(), scriptRows(), serverRows()),
	}, {
		title: "Deciding from leases",
		about: "A limiter charges requests ahead in Redis and decides them in memory, beside one that asks Redis for each decision.",
		rows:  leaseRows(),
	}, {
		title: "Around a decision",
		about: "What a program may add, beside the same work without it.",
		rows:  apart(aroundRows()...),
	}, {
		title: "Inside",
		about: "What a store keeps.",
		rows:  apart(heapRows()...),
	}, {
		title: "Access logs",
		about: "What `spillgate replay` does with yesterday's requests, by processor time.",
		rows:  replayRows(),
	}}
}
