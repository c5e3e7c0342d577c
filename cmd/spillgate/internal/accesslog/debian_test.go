package accesslog_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// requests is the least number of requests in the logs that are access logs in a known format. The other logs are error
// logs, mail logs and the like, or access logs in formats of their own.
var requests = map[string]int{"example.log": 3260, "apache-badbots": 3, "nginx-bad-request": 3, "nginx-botsearch": 8, "php-url-fopen": 1, "traefik-auth": 6}

// debian returns the paths of the logs, which .ci/fetch-logs unpacks.
func debian(t *testing.T) []string {
	t.Helper()
	paths := must.Get(filepath.Glob("testdata/debian/*"))(t)
	if len(paths) > 0 {
		return paths
	}
	must.True(t, os.Getenv("CI") == "",
		"Debian's logs are not there: .ci/fetch-logs cmd/spillgate/internal/accesslog/testdata/debian unpacks them")
	t.Skip("Debian's logs are not there: .ci/fetch-logs cmd/spillgate/internal/accesslog/testdata/debian unpacks them")
	return nil
}

func TestEveryLineOfDebianLogsIsAccountedFor(t *testing.T) {
	found := 0
	for _, path := range debian(t) {
		text := must.Get(os.ReadFile(path))(t)
		if want := requests[filepath.Base(path)]; want > 0 {
			found++
			readOrNamed(t, path, "", text, want)
			continue
		}
		for _, format := range accesslog.Formats {
			readOrNamed(t, path, format, text, 0)
		}
	}
	expect.True(t, found == len(requests), "found %d of the %d access logs", found, len(requests))
}

// readOrNamed reads a log and fails the test unless every line is a request, about no request, reported as bad, or empty.
func readOrNamed(t *testing.T, path, format string, text []byte, want int) {
	t.Helper()
	r, err := accesslog.NewReader(path, strings.NewReader(string(text)), accesslog.Options{Format: format})
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	var e accesslog.Entry
	for err == nil {
		err = r.Next(&e)
	}
	expect.True(t, errors.Is(err, io.EOF) && r.Entries >= want && r.BadSum == len(r.Bad),
		"%s: got %v, %d requests, want %d; %d bad lines, %d reported", path, err, r.Entries, want, r.BadSum, len(r.Bad))
	lines, blank := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), 0
	for _, line := range lines {
		if strings.TrimRight(line, "\r") == "" || format == "cloudfront" && strings.HasPrefix(line, "#") {
			blank++
		}
	}
	header := 0
	if format == "csv" && r.BadSum+blank < len(lines) { // the header line
		header = 1
	}
	if got := r.Entries + r.Others + r.BadSum + blank + header; got != len(lines) || r.Lines != len(lines) {
		t.Errorf("%s as %s: %d of %d lines are requests, %d about no request, %d bad, %d blank", path, r.Format, r.Entries, len(lines), r.Others, r.BadSum, blank)
	}
	for _, bad := range r.Bad {
		expect.True(t, bad.Line >= 1 && bad.Line <= len(lines) && bad.Why != "" && lines[bad.Line-1] != "", "%s: bad line %+v", path, bad)
	}
}
