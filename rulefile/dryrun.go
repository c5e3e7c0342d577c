package rulefile

import (
	"log/slog"
	"strings"
)

// dryRunVariable is the environment variable that turns rules into dry runs.
const dryRunVariable = "SPILLGATE_DRY_RUN"

// applyDryRun turns the rules that value names into dry runs. It logs names that no rule has.
func (f *File) applyDryRun(value string, log *slog.Logger) {
	if log == nil {
		log = slog.Default()
	}
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		found := name == "" || name == "all"
		for i := range f.Rules {
			if r := &f.Rules[i]; name == "all" || name != "" && r.Name == name {
				r.DryRun, found = true, true
			}
		}
		if !found {
			log.Warn("spillgate: SPILLGATE_DRY_RUN names a rule that the rules file does not have", "rule", name)
		}
	}
}
