package recipes

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// loginByName counts failed logins of a name, whatever address they come from.
func loginByName(secret []byte) core.Rule {
	return core.Rule{
		Name:      "login-name",
		Key:       keyfunc.Hash(secret, loginName),
		Routes:    []string{"POST /login"},
		Limits:    core.MustParseLimits("20/h"),
		CostAfter: core.Failures,
		OnFailure: core.FailClosed,
	}
}

// loginName parses the form. The handler then finds it in r.PostForm.
func loginName(r *http.Request) (string, error) {
	r.Body = http.MaxBytesReader(nil, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		return "", fmt.Errorf("login form: %w", core.ErrBadKey)
	}
	switch names := r.PostForm["name"]; {
	case len(names) == 0 || strings.TrimSpace(names[0]) == "":
		return "", fmt.Errorf("login name: %w", core.ErrNoKey)
	case len(names) > 1:
		return "", fmt.Errorf("login name: %w", core.ErrBadKey)
	default:
		return "login:" + strings.ToLower(strings.TrimSpace(names[0])), nil
	}
}
