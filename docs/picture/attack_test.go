// Package picture_test draws the picture of README.md: one client attacks, and its requests are denied while the others are served.
//
//	go test ./docs/picture -update
package picture_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

var update = flag.Bool("update", false, "write docs/attack-light.svg and docs/attack-dark.svg")

const (
	seconds    = 60
	clients    = 240
	attackFrom = 20 // second of the first request of the attacker
	attackRate = 600
)

// A second counts the requests of one second.
type second struct{ served, attackServed, denied int }

// simulate sends the requests of all clients through the middleware, on a clock of its own. Each client sends one
// request per second on average.
func simulate(t *testing.T) (counts [seconds]second) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store := &core.MemoryStore{Now: func() time.Time { return now }}
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}, core.WithStore(store)))
	handler := stdlib.New(limiter)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	send := func(client int) bool {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = fmt.Sprintf("198.51.100.%d:40000", client)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code == http.StatusOK
	}
	const steps = 1000 // per second
	random := rand.New(rand.NewPCG(1, 2))
	for s := range seconds {
		for range steps {
			if random.IntN(steps) < clients {
				must.True(t, send(1+random.IntN(clients)), "a client that keeps to the limit was denied")
				counts[s].served++
			}
			if s >= attackFrom && random.IntN(steps) < attackRate {
				if send(0) {
					counts[s].attackServed++
				} else {
					counts[s].denied++
				}
			}
			now = now.Add(time.Second / steps)
		}
	}
	return counts
}

type theme struct{ text, grid, served, attack, denied string }

var themes = map[string]theme{
	"light": {text: "#1f2328", grid: "#d1d9e0", served: "#0969da", attack: "#a40e26", denied: "#ffb3ad"},
	"dark":  {text: "#f0f6fc", grid: "#3d444d", served: "#1f6feb", attack: "#ff7b72", denied: "#6e2a2a"},
}

const (
	width, height      = 860, 300
	left, right        = 56, width - 24
	top, bottom        = 16, height - 36
	most               = 900 // requests per second at the top
	pixelsPerSecond    = float64(right-left) / seconds
	pixelsPerRequest   = float64(bottom-top) / most
	fontSize, fontName = 14, "system-ui, -apple-system, 'Segoe UI', sans-serif"
)

func x(second int) float64   { return left + pixelsPerSecond*float64(second) }
func y(requests int) float64 { return bottom - pixelsPerRequest*float64(requests) }

// area returns a polygon between two numbers of requests per second.
func area(color string, counts [seconds]second, lower, upper func(second) int) string {
	var above, below []string
	for s, c := range counts {
		above = append(above, fmt.Sprintf("%.1f,%.1f %.1f,%.1f", x(s), y(upper(c)), x(s+1), y(upper(c))))
		below = append([]string{fmt.Sprintf("%.1f,%.1f %.1f,%.1f", x(s+1), y(lower(c)), x(s), y(lower(c)))}, below...)
	}
	return fmt.Sprintf("<polygon fill=%q points=%q/>\n", color, strings.Join(append(above, below...), " "))
}

func draw(counts [seconds]second, c theme) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" font-family=%q font-size=\"%d\" fill=%q>\n",
		width, height, width, height, fontName, fontSize, c.text)
	b.WriteString("<title>Requests per second: one client attacks and is denied, while 240 others are served as before</title>\n")
	for n := 0; n <= most; n += 300 {
		fmt.Fprintf(&b, "<path stroke=%q d=\"M%d %.1fH%d\"/>", c.grid, left, y(n), right)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", left-8, y(n)+5, n)
	}
	for s := 0; s <= seconds; s += 10 {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d s</text>\n", x(s), bottom+22, s)
	}
	normal := func(s second) int { return s.served }
	served := func(s second) int { return s.served + s.attackServed }
	all := func(s second) int { return s.served + s.attackServed + s.denied }
	b.WriteString(area(c.denied, counts, served, all))
	b.WriteString(area(c.attack, counts, normal, served))
	b.WriteString(area(c.served, counts, func(second) int { return 0 }, normal))
	label := func(second, requests int, color, text string) {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\" fill=%q>%s</text>\n", x(second), y(requests), color, text)
	}
	label(1, 105, "#ffffff", "served: 240 clients, about 240 requests per second")
	label(24, 560, c.text, "denied with 429: one client, 600 requests per second")
	label(2, 810, c.text, "requests per second")
	label(2, 700, c.text, "100 per minute for each address")
	label(24, 380, c.text, "its first 100 requests are served, then 5 every 3 seconds")
	b.WriteString("</svg>\n")
	return b.String()
}

// TestPicture checks that the attacker is admitted as often as its limit allows, that nobody else is denied, and that the pictures
// show this run.
func TestPicture(t *testing.T) {
	counts := simulate(t)
	attacker, after := 0, 0
	for s, c := range counts {
		if attacker += c.attackServed; s > attackFrom {
			after += c.attackServed
		}
	}
	if most := 100 + (seconds-attackFrom)*100/60; attacker > most || attacker < most-2 || after > most-100 {
		t.Errorf("the attacker was served %d times, %d of them after its first second; want %d and %d at most", attacker, after, most, most-100)
	}
	for name, colors := range themes {
		file, picture := "../attack-"+name+".svg", draw(counts, colors)
		if *update {
			must.Do(t, os.WriteFile(file, []byte(picture), 0o644))
		}
		expect.Equal(t, string(must.Get(os.ReadFile(file))(t)), picture, "%s does not show this run; run go test ./docs/picture -update", file)
	}
}
