package ginlimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

// TestOutcome checks the outcome that Rule.CostAfter gets where gin takes part in the response.
func TestOutcome(t *testing.T) {
	oops := errors.New("oops")
	recovery := gin.RecoveryWithWriter(discard{})
	answerErrors := func(c *gin.Context) {
		if c.Next(); len(c.Errors) > 0 {
			c.Status(http.StatusInternalServerError)
		}
	}
	for why, row := range map[string]struct {
		around, inside gin.HandlerFunc
		handle         gin.HandlerFunc
		status         int
		err            bool
	}{
		"a status alone":                {nil, nil, func(c *gin.Context) { c.Status(http.StatusUnauthorized) }, 401, false},
		"a Recovery around":             {recovery, nil, func(*gin.Context) { panic("oops") }, 500, true},
		"a Recovery inside":             {nil, recovery, func(*gin.Context) { panic("oops") }, 500, false},
		"an error that was answered":    {nil, nil, func(c *gin.Context) { _ = c.AbortWithError(http.StatusForbidden, oops) }, 403, false},
		"an error that has a status":    {nil, nil, func(c *gin.Context) { _ = c.Error(oops); c.Status(http.StatusBadGateway) }, 502, false},
		"an error answered inside":      {nil, answerErrors, func(c *gin.Context) { _ = c.Error(oops) }, 500, false},
		"an error answered around":      {answerErrors, nil, func(c *gin.Context) { _ = c.Error(oops) }, 200, true},
		"an error of a middleware":      {func(c *gin.Context) { _ = c.Error(oops) }, nil, func(*gin.Context) {}, 200, false},
		"an error beside a good answer": {nil, nil, func(c *gin.Context) { c.String(200, "ok"); _ = c.Error(oops) }, 200, false},
	} {
		var got []core.Outcome
		rule := core.PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
		rule.CostAfter = func(_ *http.Request, o core.Outcome) int {
			got = append(got, o)
			return 0
		}
		r := gin.New()
		pass := func(*gin.Context) {}
		for _, h := range []gin.HandlerFunc{row.around, ginlimit.New(core.Must(core.New([]core.Rule{rule}, core.WithStore(admitting{})))), row.inside} {
			if h == nil {
				h = pass
			}
			r.Use(h)
		}
		r.GET("/", row.handle)
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		if len(got) != 1 || got[0].Status != row.status || (got[0].Err != nil) != row.err {
			t.Errorf("%s: the outcomes are %+v, want status %d, error %v", why, got, row.status, row.err)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// admitting is a store that admits every request.
type admitting struct{}

func (admitting) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for _, c := range claims {
		dst = append(dst, core.Result{Rule: c.Rule, Limit: c.Limits[0], Allowed: true})
	}
	return dst, nil
}

func (admitting) Settle(context.Context, []core.Settlement) error { return nil }
func (admitting) Reset(context.Context, []core.Pair) error        { return nil }
