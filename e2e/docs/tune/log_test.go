package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// accessLog returns the log of a day in combined format: 5,000 clients who sometimes mistype a password, and three who guess passwords.
func accessLog() string {
	random := rand.New(rand.NewPCG(1, 2))
	day := time.Date(2025, 10, 10, 0, 0, 0, 0, time.UTC)
	var lines []string
	add := func(second int, client, request string, status int) {
		at := day.Add(time.Duration(second) * time.Second)
		lines = append(lines, fmt.Sprintf("%s\x00%s - - [%s] \"%s HTTP/1.1\" %d 512 \"-\" \"Mozilla/5.0\"", at.Format(time.RFC3339), client, at.Format("02/Jan/2006:15:04:05 -0700"), request, status))
	}
	for c := range 5000 {
		client := fmt.Sprintf("198.51.%d.%d", c/250, c%250)
		for range 1 + random.IntN(3) {
			second := random.IntN(86_000)
			for random.IntN(4) == 0 {
				add(second, client, "POST /login", 401)
				second += 5 + random.IntN(20)
			}
			add(second, client, "POST /login", 200)
			for page := range 1 + random.IntN(3) {
				add(second+1+page, client, fmt.Sprintf("GET /orders/%d", random.IntN(1000)), 200)
			}
		}
	}
	for c := range 3 {
		for i := range 300 {
			add(20_000*(c+1)+i/2, fmt.Sprintf("203.0.113.%d", c), "POST /login", 401)
		}
	}
	slices.Sort(lines)
	var b strings.Builder
	for _, line := range lines {
		_, line, _ = strings.Cut(line, "\x00")
		b.WriteString(line + "\n")
	}
	return b.String()
}
