package rulefile_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/internal/rulecases"
	"github.com/spillgate/spillgate/rulefile"
)

// badFiles are files with mistakes.
var badFiles = rulecases.Bad()

func TestEveryMistakeHasItsPlace(t *testing.T) {
	for _, tt := range badFiles {
		t.Run(tt.Why, func(t *testing.T) {
			_, err := rulefile.Parse([]byte(tt.Text), program)
			var mistakes rulefile.Mistakes
			if !errors.As(err, &mistakes) {
				t.Fatalf("got error %v, want mistakes", err)
			}
			var got []string
			for _, m := range mistakes {
				got = append(got, fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Text))
			}
			if !slices.Equal(got, tt.Mistakes) {
				t.Errorf("%s\ngot  %q\nwant %q", tt.Text, got, tt.Mistakes)
			}
		})
	}
	if len(badFiles) < 40 {
		t.Errorf("got %d bad files, want at least 40", len(badFiles))
	}
}
