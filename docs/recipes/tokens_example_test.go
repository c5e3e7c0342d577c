package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
)

// tokens allows each user 100,000 tokens a minute.
func tokens(user core.KeyFunc) core.Rule {
	return core.Rule{
		Name:      "tokens",
		Key:       user,
		Routes:    []string{"POST /v1/chat"},
		Limits:    []core.Limit{core.PerMinute(100_000)},
		Cost:      func(*http.Request) int { return 2_000 }, // an estimate, held until the answer is complete
		CostAfter: func(_ *http.Request, o core.Outcome) int { return o.Cost },
	}
}

// chat streams what generate yields: some text, and the number of tokens used so far.
func chat(w http.ResponseWriter, r *http.Request, generate func(yield func(text string, used int) bool)) {
	for text, used := range generate {
		core.SetCost(r.Context(), "tokens", used)
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}
