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
	Tiers      map[string]func(*http.Request) string // return the name of a tier; if the rule has no such tier, its limits apply
	Costs      map[string]func(*http.Request) int
	CostsAfter map[string]func(*http.Request, core.Outcome) int
	Matches    map[string]func(*http.Request) bool
}

// A File is a rules file that has been read.
type File struct {
	Rules []core.Rule
	Hash  string // SHA-256 of the contents, in hexadecimal digits

	// Warnings are about parts of the file that are valid but may not do what they seem to do.
	Warnings []*Mistake

	details []detail          // one per rule
	tables  map[string]string // of proxies and skip: see node.plain
}

// Parse reads rules from src. Its error is of type Mistakes and lists all mistakes, with places in "spillgate.yaml".
func Parse(src []byte, f Funcs) (*File, error) {
	return parse("spillgate.yaml", src, resolver{funcs: f})
}

// Check is Parse without the program's functions: a name that the file declares under funcs stands for a function of
// any kind. Do not use the rules: check only the error. Mistakes have places in the file called name.
func Check(name string, src []byte) (*File, error) {
	return parse(name, src, resolver{assume: true})
}

// Offline is Check for tools that replay past requests. A tool can use a rule if it has everything that Needs returns
// for the rule. The key ip is RemoteAddr, an address without a port or a host name, whatever the file's proxies are.
func Offline(name string, src []byte) (*File, error) {
	return parse(name, src, resolver{assume: true, offline: true})
}

// Needs returns the parts of a request that a rule reads besides the method, the path and the client's address: "header
// X-Plan", "host", "user", "route pattern" or "function plan", each once.
func (f *File) Needs(rule int) []string {
	needs := slices.Clone(f.details[rule].needs)
	for _, route := range f.Rules[rule].Routes {
		if host, _ := splitRoute(route); host != "" {
			needs = append(needs, "host")
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// splitRoute returns the host and the path of a pattern without the slash between them.
func splitRoute(pattern string) (host, path string) {
	before, path, _ := strings.Cut(pattern, "/")
	return before[strings.LastIndexAny(before, " \t")+1:], path
}

// Load reads the rules of a file. Its error is of type Mistakes, or comes from reading the file.
//
// The environment variable SPILLGATE_DRY_RUN turns rules into dry runs: the rules that it names, separated by commas,
// or all rules if it is "all". Load logs a name that no rule has.
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

// Read returns the contents of a regular file, but at most 16 MiB and one byte, because Parse accepts at most 16 MiB.
// It does not open anything else, such as a named pipe, which could block.
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
