package rulefile_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/rulefile"
)

// A badFile is a file and all its mistakes, each with line and column.
type badFile struct {
	why, src string
	want     []string
}

// badFiles are files with mistakes.
var badFiles = append(badTables, badValues...)

func TestEveryMistakeHasItsPlace(t *testing.T) {
	for _, tt := range badFiles {
		t.Run(tt.why, func(t *testing.T) {
			_, err := rulefile.Parse([]byte(tt.src), program)
			mistakes, ok := errors.AsType[rulefile.Mistakes](err)
			if !ok {
				t.Fatalf("got error %v, want mistakes", err)
			}
			var got []string
			for _, m := range mistakes {
				got = append(got, fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Text))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s\ngot  %q\nwant %q", tt.src, got, tt.want)
			}
		})
	}
	if len(badFiles) < 40 {
		t.Errorf("got %d bad files, want at least 40", len(badFiles))
	}
}
