package rulefile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// Funcs are the functions that your program supplies to rules files, by name.
type Funcs struct {
	Keys       map[string]core.KeyFunc
	Tiers      map[string]func(*http.Request) string // the name of a tier; one that the rule does not have means its limits
	Costs      map[string]func(*http.Request) int
	CostsAfter map[string]func(*http.Request, core.Outcome) int
	Matches    map[string]func(*http.Request) bool
}

// A File is a rules file that has been read.
type File struct {
	Rules []core.Rule
	Hash  string // of the contents: SHA-256, in hexadecimal digits

	details []detail // one per rule
}

// Parse reads rules from src. Its error is of type Mistakes and lists all of them, with places in "spillgate.yaml".
func Parse(src []byte, f Funcs) (*File, error) {
	return parse("spillgate.yaml", src, resolver{funcs: f})
}

// Check does what Parse does without the program: a name that the file declares under funcs stands for a function of any kind. The
// rules are not for use. The mistakes have places in a file of this name.
func Check(name string, src []byte) (*File, error) {
	return parse(name, src, resolver{assume: true})
}

// Offline does what Check does, for tools that decide requests of the past. A rule is for use if the tool has what Needs returns for
// it. The key ip comes from RemoteAddr, an address without a port or a host name, whatever proxies says.
func Offline(name string, src []byte) (*File, error) {
	return parse(name, src, resolver{assume: true, offline: true})
}

// Needs returns what a rule reads of a request besides its method, its path and its client: "header X-Plan", "host", "user", "route
// pattern" or "function plan", each once.
func (f *File) Needs(rule int) []string {
	needs := slices.Clone(f.details[rule].needs)
	for _, route := range f.Rules[rule].Routes {
		before, _, _ := strings.Cut(route, "/")
		if host := before[strings.LastIndexAny(before, " \t")+1:]; host != "" {
			needs = append(needs, "host")
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// Load reads the rules of a file. Its error is of type Mistakes or from reading the file.
//
// The environment variable SPILLGATE_DRY_RUN turns rules into dry runs: those that it names, separated by commas, or all of
// them if it is "all". A name that no rule has is logged.
func Load(path string, f Funcs) (*File, error) {
	src, err := Read(path)
	if err != nil {
		return nil, err
	}
	file, err := parse(path, src, resolver{funcs: f})
	if err != nil {
		return nil, err
	}
	file.applyDryRun(os.Getenv(dryRunVariable), nil)
	return file, nil
}

// Read returns the contents of a regular file, or its first 16 MiB and one byte: Parse takes no more than 16 MiB. It does not open
// anything else, such as a named pipe, which could make it wait.
func Read(path string) ([]byte, error) {
	path = filepath.Clean(path)
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("spillgate: rules: %w: %s is not a regular file", core.ErrInvalid, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("spillgate: rules: %w", err)
	}
	defer func() { _ = f.Close() }()
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("spillgate: rules: %w", err)
	}
	return src, nil
}

func hashOf(src []byte) string {
	sum := sha256.Sum256(src)
	return hex.EncodeToString(sum[:])
}
