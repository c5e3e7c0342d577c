package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// points is a limiter for query costs. No adapter mounts it: the cost is known only after the query has been parsed.
func points() (*core.Limiter, error) {
	return core.New([]core.Rule{{Name: "graphql", Limits: []core.Limit{core.PerMinute(5000)}}})
}

// graphQL charges the cost of each query to its user. complexity parses a query and estimates its cost.
func graphQL(points *core.Limiter, user core.KeyFunc, complexity func(*http.Request) (int, error), execute http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cost, err := complexity(r)
		if err != nil {
			http.Error(w, "bad query", http.StatusBadRequest)
			return
		}
		key, err := user(r)
		if err != nil {
			stdlib.WriteError(w, r, err)
			return
		}
		d, err := points.Take(r.Context(), core.Claim{Rule: "graphql", Key: key, Cost: cost})
		if err != nil {
			stdlib.WriteError(w, r, err)
			return
		}
		headers.GitHub(w.Header(), d)
		if !d.Allowed {
			stdlib.WriteDenial(w, r, d) // 413 if the query costs more than 5,000
			return
		}
		execute.ServeHTTP(w, r)
	})
}
