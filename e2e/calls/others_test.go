package calls

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

func TestPython(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3" // Debian's, which finds Debian's packages
	if _, err := wire.Run(t, "", nil, python, "-c", "import grpc"); err != nil {
		wire.Skip(t, err)
	}
	testProgram(t, "", python, must.Get(filepath.Abs(filepath.Join("testdata", "drive.py")))(t))
}

// A seen is what a program prints of a call.
type seen struct {
	Code                         codes.Code
	Details, Pushback, Remaining string
}

// testProgram calls a server of grpc-go, and one behind an adapter for HTTP, by a program in another language.
func testProgram(t *testing.T, dir string, program ...string) {
	call := func(t *testing.T, address string, calls int, env ...string) (all []seen) {
		args := append(program[1:len(program):len(program)], address, pathOf(unary), fmt.Sprint(calls))
		all = wire.Decode[seen](t, must.Get(wire.Run(t, dir, append(env, "MESSAGE="+passwordHex(t)), program[0], args...))(t))
		must.True(t, len(all) == calls, "%d calls: %+v", calls, all)
		return all
	}
	for why, serve := range bothServers {
		t.Run(why, func(t *testing.T) {
			got := call(t, serve(t, limiterOf(verdict{wait: 1500 * time.Millisecond}, keyfunc.Const("all"), "login")), 1)[0]
			expect.True(t, got.Code == codes.ResourceExhausted && got.Pushback == "1500" && got.Remaining == "0", "a denied call: %+v", got)
			wantDetails(t, got, retryIn(1500*time.Millisecond), quota("login"))
			got = call(t, serve(t, limiterOf(verdict{}, noKey, "login")), 1)[0]
			expect.True(t, got.Code == codes.InvalidArgument && got.Pushback == "-1", "a call without a key: %+v", got)

			limiter := core.Must(core.New([]core.Rule{core.PerSecond(5).WithBurst(1).By(keyfunc.RemoteIP)}))
			for i, got := range call(t, serve(t, limiter), 4, "RETRY=1") {
				expect.Equal(t, got.Code, codes.OK, "call %d, which should be retried: %+v", i+1, got)
			}
			daily := core.Must(core.New([]core.Rule{core.PerDay(1).By(keyfunc.RemoteIP)}))
			begun := time.Now()
			if got := call(t, serve(t, daily), 2, "RETRY=1"); got[0].Code != codes.OK || got[1].Code != codes.ResourceExhausted || time.Since(begun) > 25*time.Second {
				t.Errorf("calls above a daily limit, for %v: %+v", time.Since(begun), got)
			}
		})
	}
}

// bothServers serve the service by grpc-go, limited by interceptors, and behind an adapter for HTTP.
var bothServers = map[string]func(t *testing.T, l *core.Limiter) string{
	"grpclimit": func(t *testing.T, l *core.Limiter) string { return new(login).native(t, l) },
	"stdlib": func(t *testing.T, l *core.Limiter) string {
		return serve(t, apps.Frameworks[0].Build(new(login).app(apps.Guard{Limiter: l})))
	},
}

// passwordHex returns the message with the right password.
func passwordHex(t *testing.T) string {
	return hex.EncodeToString(must.Get(proto.Marshal(wrapperspb.String(right)))(t))
}

func wantDetails(t *testing.T, got seen, details ...proto.Message) {
	t.Helper()
	bin, err := hex.DecodeString(got.Details)
	s := new(spb.Status)
	if err == nil {
		err = proto.Unmarshal(bin, s)
	}
	must.Do(t, err)
	want(t, status.ErrorProto(s), codes.ResourceExhausted, details...)
}
