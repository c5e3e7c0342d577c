package nearest

import (
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
)

func TestWord(t *testing.T) {
	known := []string{"name", "match", "headers", "key", "limits", "tiers", "cost", "dry_run", "on_failure", "sliding-window", "sliding-log", "m"}
	for _, tt := range []struct{ word, want string }{
		{"limit", "limits"}, {"limits", "limits"}, {"lmits", "limits"}, {"ilmits", "limits"}, {"LIMITS", "limits"}, {" limits ", "limits"},
		{"nmae", "name"}, {"keys", "key"}, {"ke", "key"}, {"dryrun", "dry_run"}, {"dry-run", "dry_run"}, {"onfailure", "on_failure"}, {"header", "headers"},
		{"sliding-lgo", "sliding-log"}, {"slidingwindow", "sliding-window"}, {"on_f", "on_failure"},
		{"M", "m"}, {"", ""}, {"x", ""}, {"zzz", ""}, {"colour", ""}, {"ma", ""},
	} {
		expect.Equal(t, Word(tt.word, known), tt.want, "%q", tt.word)
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"ca", "abc", 3}, {"limit", "limits", 1}}
	for _, tt := range tests {
		expect.Equal(t, distance(tt.a, tt.b), tt.want, "%q to %q", tt.a, tt.b)
	}
}
