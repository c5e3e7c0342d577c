package main

import (
	"strings"
	"testing"
)

// Each command has an example, which it accepts as a command line.
func TestExamplesOfHelp(t *testing.T) {
	root := newRoot()
	for _, c := range append(root.Commands(), root) {
		if c.Name() == "help" {
			continue
		}
		lines := 0
		for line := range strings.Lines(c.Example) {
			if line, _, _ = strings.Cut(line, " # "); strings.Contains(line, "spillgate ") {
				lines++
				checkExample(t, line)
			}
		}
		if lines == 0 {
			t.Errorf("%s has no example", c.Name())
		}
	}
}

// checkExample parses the arguments of a shell line with a fresh command.
func checkExample(t *testing.T, line string) {
	t.Helper()
	_, args, _ := strings.Cut(line, "spillgate ")
	args, _, _ = strings.Cut(args, " > ")
	var words []string
	for i, quoted := range strings.Split(strings.TrimSpace(args), "'") {
		if i%2 == 1 {
			words = append(words, quoted)
		} else {
			words = append(words, strings.Fields(quoted)...)
		}
	}
	c, rest, err := newRoot().Find(words)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err == nil {
		err = c.ValidateRequiredFlags()
	}
	if err != nil || !c.HasParent() {
		t.Errorf("%q: %v", line, err)
	}
}

func TestMistypedCommand(t *testing.T) {
	for word, want := range map[string]string{
		"dmeo": `there is no command "dmeo"; did you mean demo?`,
		"list": `there is no command "list"; see spillgate --help`,
	} {
		if code, _, stderr := execute(t, word); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q", word, code, stderr)
		}
	}
}
