package rulefile

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

var (
	bools    = []string{"false", "true"}
	failures = []string{"local", "open", "closed"} // in the order of core.FailureMode
)

func (r *reader) modes(fields map[string]field, rule *core.Rule) {
	rule.DryRun = r.oneOf(fields["dry_run"], bools) == 1
	rule.OnFailure = core.FailureMode(r.oneOf(fields["on_failure"], failures))
	rule.Lease = r.duration(fields["lease"], "100ms")
}

// duration returns the time in f, which may be 0, or 0 if the field is missing or invalid.
func (r *reader) duration(f field, example string) time.Duration {
	if f.key == nil {
		return 0
	}
	text := r.text(f)
	d, err := time.ParseDuration(text)
	if text != "" && (err != nil || text[0] == '-') {
		r.add(f.value.spot, "%s: want a time such as %s, got %q", f.key.text, example, text)
		return 0
	}
	return d
}

// oneOf returns the index of the field's word in words, or 0 if the field is missing or has another word.
func (r *reader) oneOf(f field, words []string) int {
	if f.key == nil {
		return 0
	}
	text := r.text(f)
	if i := slices.Index(words, text); i >= 0 || text == "" {
		return max(i, 0)
	}
	r.add(f.value.spot, "%s: unknown word %q%s", f.key.text, text, r.didYouMean(text, words))
	return 0
}
