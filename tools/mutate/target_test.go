package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEachPatternMatchesAFileOfTheModule(t *testing.T) {
	if _, err := expand("../..", patterns); err != nil {
		t.Error(err)
	}
}

// TestEachFilterMatchesATest checks that the tests that run first, or not at all, still exist.
func TestEachFilterMatchesATest(t *testing.T) {
	tests := make(map[string]string) // the test names of a package, one per line
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, p := range patterns {
		for _, s := range p.suites {
			if tests[s.pkg] == "" {
				files, _ := filepath.Glob(filepath.Join("../..", s.pkg, "*_test.go"))
				for _, file := range files {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					for _, match := range function.FindAllStringSubmatch(string(text), -1) {
						tests[s.pkg] += match[1] + "\n"
					}
				}
			}
			for _, filter := range strings.Split(s.first+"|"+s.skip, "|") {
				if !regexp.MustCompile("(?m)" + filter).MatchString(tests[s.pkg]) {
					t.Errorf("%s: no test of %s has a name with %q", p.file, s.pkg, filter)
				}
			}
		}
	}
}
