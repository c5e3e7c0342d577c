package client_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/internal/must"
)

// An announcement is a way in which a server says when it admits the next request, by its own clock.
type announcement struct {
	name   string
	status int
	fields func(now, at time.Time) []string
}

func seconds(d time.Duration) string    { return strconv.Itoa(int(d / time.Second)) }
func epoch(t time.Time) string          { return strconv.FormatInt(t.Unix(), 10) }
func date(t time.Time, f string) string { return t.UTC().Format(f) }

// announcements follow every convention, and some servers' deviations from them.
var announcements = []announcement{
	{"Retry-After in seconds", 429, func(now, at time.Time) []string { return []string{"Retry-After", seconds(at.Sub(now))} }},
	{"Retry-After as a date", 429, func(_, at time.Time) []string { return []string{"Retry-After", date(at, http.TimeFormat)} }},
	{"Retry-After as a date of RFC 850", 429, func(_, at time.Time) []string {
		return []string{"Retry-After", date(at, "Monday, 02-Jan-06 15:04:05 GMT")}
	}},
	{"Retry-After as asctime", 429, func(_, at time.Time) []string { return []string{"Retry-After", date(at, time.ANSIC)} }},
	{"the longer of two Retry-After", 429, func(now, at time.Time) []string {
		return []string{"Retry-After", "1", "Retry-After", seconds(at.Sub(now)), "Retry-After", "2"}
	}},
	{"GitHub, the last one", 200, func(_, at time.Time) []string { return gitHub("60", "0", epoch(at), "core") }},
	{"GitHub, primary limit", 403, func(_, at time.Time) []string { return gitHub("60", "0", epoch(at), "core") }},
	{"GitHub, primary limit as 429", 429, func(_, at time.Time) []string { return gitHub("60", "0", epoch(at), "core") }},
	{"GitHub, secondary limit", 403, func(now, at time.Time) []string {
		return append(gitHub("5000", "4990", epoch(at.Add(time.Hour)), "core"), "Retry-After", seconds(at.Sub(now)))
	}},
	{"GitHub, secondary limit as 429", 429, func(now, at time.Time) []string {
		return append(gitHub("5000", "4990", epoch(at.Add(time.Hour)), "core"), "Retry-After", seconds(at.Sub(now)))
	}},
	{"X-RateLimit, Reset in seconds", 200, func(now, at time.Time) []string { return gitHub("60", "0", seconds(at.Sub(now)), "") }},
	{"X-RateLimit, Reset in milliseconds", 200, func(_, at time.Time) []string { return gitHub("60", "0", epoch(at)+"000", "") }},
	{"X-RateLimit, Reset with a fraction", 200, func(_, at time.Time) []string { return gitHub("60", "0", epoch(at.Add(-time.Second))+".25", "") }},
	{"X-RateLimit, Reset as RFC 3339", 200, func(_, at time.Time) []string { return gitHub("60", "0", date(at, time.RFC3339), "") }},
	{"X-RateLimit, Reset as an HTTP date", 200, func(_, at time.Time) []string { return gitHub("60", "0", date(at, http.TimeFormat), "") }},
	{"X-RateLimit, Reset as a date in UTC", 200, func(_, at time.Time) []string { return gitHub("60", "0", date(at, time.RFC1123), "") }},
	{"X-RateLimit of two proxies", 200, func(_, at time.Time) []string {
		return append(gitHub("9", "8", epoch(at.Add(time.Hour)), "outer"), gitHub("60", "0", epoch(at), "inner")...)
	}},
	{"IETF, draft 08 to 11", 200, func(now, at time.Time) []string {
		return []string{"RateLimit-Policy", `"burst";q=100;w=60,"daily";q=1000;w=86400`,
			"RateLimit", `"burst";r=0;t=` + seconds(at.Sub(now)) + `,"daily";r=800;t=44`}
	}},
	{"IETF, with spaces, a partition key and extensions", 200, func(now, at time.Time) []string {
		return []string{"RateLimit", `"a \"b\\,;r=9";r=0 ;  t=` + seconds(at.Sub(now)) + `; pk=:cHsd=,:;x;y="z,;" ,	"c";r=9;t=1`}
	}},
	{"IETF, two lines", 200, func(now, at time.Time) []string {
		return []string{"RateLimit", `"a";r=5;t=1`, "RateLimit", `"b";r=0;t=` + seconds(at.Sub(now))}
	}},
	{"IETF, denied", 429, func(now, at time.Time) []string {
		return []string{"RateLimit", `"a";r=0;t=1,"b";r=0`, "Retry-After", seconds(at.Sub(now))}
	}},
	{"IETF, draft 07", 200, func(now, at time.Time) []string {
		return []string{"RateLimit-Policy", "60;w=60", "RateLimit", "limit=60, remaining=0, reset=" + seconds(at.Sub(now))}
	}},
	{"IETF, the older three fields", 200, func(now, at time.Time) []string {
		return []string{"RateLimit-Limit", "60, 60;w=60", "RateLimit-Remaining", "0", "RateLimit-Reset", seconds(at.Sub(now))}
	}},
	{"both families, contradicting: the later instant", 200, func(now, at time.Time) []string {
		return append(gitHub("60", "0", epoch(now.Add(time.Second)), ""), "RateLimit", `"a";r=0;t=`+seconds(at.Sub(now)))
	}},
	{"503", 503, func(now, at time.Time) []string { return []string{"Retry-After", seconds(at.Sub(now))} }},
}

// gitHub returns the fields of one limit, without an empty resource.
func gitHub(limit, remaining, reset, resource string) []string {
	fields := []string{"X-RateLimit-Limit", limit, "X-RateLimit-Remaining", remaining, "X-RateLimit-Reset", reset}
	if resource != "" {
		fields = append(fields, "X-RateLimit-Resource", resource)
	}
	return fields
}

// write writes a response with these fields, given as names and values.
func write(w http.ResponseWriter, status int, fields ...string) {
	for i := 0; i < len(fields); i += 2 {
		w.Header().Add(fields[i], fields[i+1])
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte("body"))
}

// TestNoRequestBeforeTheAnnouncedInstant checks that after each announcement the next request is sent at the instant or later,
// and no later than rounding and jitter explain, whatever the clocks say.
func TestNoRequestBeforeTheAnnouncedInstant(t *testing.T) {
	for _, a := range announcements {
		t.Run(a.name+", no Date", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkPromise(t, a, 0, true, 20*time.Second) })
		})
		for _, skew := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
			t.Run(fmt.Sprintf("%s, clock %v", a.name, skew), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkPromise(t, a, skew, false, 20*time.Second) })
			})
		}
	}
}

func checkPromise(t *testing.T, a announcement, skew time.Duration, noDate bool, wait time.Duration) {
	time.Sleep(time.Hour + 300*time.Millisecond) // not at a whole second
	var promise time.Time
	first := true
	s := serve(func(w http.ResponseWriter, r *http.Request) {
		if !first {
			write(w, 200)
			return
		}
		first = false
		now := time.Now().Add(skew)
		at := now.Truncate(time.Second).Add(wait)
		promise = at.Add(-skew)
		write(w, a.status, a.fields(now.Truncate(time.Second), at)...)
	})
	s.skew, s.noDate = skew, noDate
	c := s.over(&client.Transport{})
	start := time.Now()
	for range 2 {
		must.Equal(t, get(t, c, "/"), 200, "status")
	}
	sent := s.requests(start)
	earliest := promise.Sub(start)
	if latest := earliest + time.Second + wait/10; len(sent) < 2 || sent[1] < earliest || sent[1] > latest {
		t.Errorf("sent at %v, want the second from %v to %v", sent, earliest, latest)
	}
}
