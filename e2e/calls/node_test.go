package calls

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// TestNode calls with the clients that programs in Node have.
func TestNode(t *testing.T) {
	t.Parallel()
	dir := wire.Node(t, filepath.Join("testdata", "node"))
	for name, test := range map[string]func(t *testing.T, dir string){
		"grpc-js":      func(t *testing.T, dir string) { testProgram(t, dir, "node", "grpcjs.mjs") },
		"nice-grpc":    testNice,
		"connect-node": testConnect,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, dir)
		})
	}
}

// testNice calls with nice-grpc and its middleware for retries, which waits as long as its options say.
func testNice(t *testing.T, dir string) {
	call := func(t *testing.T, address string, calls int, retry string) (retries []int, errs []error) {
		out := must.Get(wire.Run(t, dir, []string{"MESSAGE=" + passwordHex(t), "RETRY=" + retry}, "node", "nice.mjs", address, pathOf(unary), fmt.Sprint(calls)))(t)
		for _, line := range wire.Decode[struct {
			Retries int
			Status  json.RawMessage
		}](t, out) {
			retries, errs = append(retries, line.Retries), append(errs, errorOf(t, line.Status))
		}
		must.Equal(t, len(errs), calls, "calls (%s)", out)
		return retries, errs
	}
	for why, serve := range bothServers {
		t.Run(why, func(t *testing.T) {
			// UNAVAILABLE would be retried: it is one of the middleware's default codes.
			denied := serve(t, limiterOf(verdict{wait: 90*time.Second + 1}, keyfunc.Const("all"), "login"))
			retries, errs := call(t, denied, 1, `{"retry": true, "retryBaseDelayMs": 1}`)
			want(t, errs[0], codes.ResourceExhausted, retryIn(90001*time.Millisecond), quota("login"))
			expect.Equal(t, retries[0], 0, "how often a denied call was retried")

			limited := serve(t, core.Must(core.New([]core.Rule{core.PerSecond(5).WithBurst(1).By(keyfunc.RemoteIP)})))
			retries, errs = call(t, limited, 3, `{"retry": true, "retryBaseDelayMs": 400, "retryMaxAttempts": 5, "retryableStatuses": [8]}`)
			for i, err := range errs {
				expect.True(t, err == nil && retries[i] <= 1,
					"call %d was retried %d times, which is longer than the limit's wait: %v", i+1, retries[i], err)
			}
		})
	}
}

// testConnect calls with connect-node, which does not retry.
func testConnect(t *testing.T, dir string) {
	args := []string{"connect.mjs", descriptors(t)}
	type serving struct {
		name string
		denial
	}
	var servers []serving
	l, calls := new(login), 0
	add := func(name, address string, d denial) {
		args, servers = append(args, address), append(servers, serving{name, d})
		// Unary calls by 6 clients, 2 kinds of streams by 5, and bidirectional streams by the 3 that use HTTP/2.
		if calls += 6 + 2*5 + 3; strings.HasPrefix(address, "grpc:") {
			calls -= 15
		}
	}
	for why, d := range denials() {
		for _, f := range apps.Frameworks {
			add(f.Name+", "+why, serve(t, f.Build(l.app(apps.Guard{Limiter: d.limiter}))), d)
		}
		add("grpclimit, "+why, "grpc:"+l.native(t, d.limiter), d)
	}
	admitted := denial{limiter: guarded().Limiter}
	add("admitted", serve(t, apps.Frameworks[0].Build(new(login).app(apps.Guard{Limiter: admitted.limiter}))), admitted)

	out := must.Get(wire.Run(t, dir, nil, "node", args...))(t)
	for _, line := range wire.Decode[struct {
		Server       int
		Client, Kind string
		Status       json.RawMessage
	}](t, out) {
		calls--
		s := servers[line.Server]
		t.Run(strings.Join([]string{s.name, line.Client, line.Kind}, ", "), func(t *testing.T) {
			want(t, errorOf(t, line.Status), s.code, s.details...)
		})
	}
	expect.Equal(t, calls, 0, "calls missing in the output\n%s", out)
	expect.AtMost(t, l.ran.Load(), 0, "the handler ran")
}

// errorOf decodes a google.rpc.Status in JSON.
func errorOf(t *testing.T, text []byte) error {
	t.Helper()
	s := new(spb.Status)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, s); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return status.ErrorProto(s)
}

// descriptors writes the descriptors of the service and of the details of errors to a file, and returns its name.
func descriptors(t *testing.T) string {
	t.Helper()
	streams := map[string][2]bool{unary: {}, clientStream: {true, false}, serverStream: {false, true}, bidi: {true, true}}
	auth := &descriptorpb.ServiceDescriptorProto{Name: proto.String("Auth")}
	for _, kind := range kinds {
		m := &descriptorpb.MethodDescriptorProto{
			Name: proto.String(kind), InputType: proto.String(".google.protobuf.StringValue"), OutputType: proto.String(".google.protobuf.Empty"),
			ClientStreaming: proto.Bool(streams[kind][0]), ServerStreaming: proto.Bool(streams[kind][1]),
		}
		if kind == unary { // for Connect by GET
			m.Options = &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()}
		}
		auth.Method = append(auth.Method, m)
	}
	set := new(descriptorpb.FileDescriptorSet)
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("auth.proto"), Package: proto.String("auth.v1"), Syntax: proto.String("proto3"), Service: []*descriptorpb.ServiceDescriptorProto{auth},
	}
	for _, d := range []protoreflect.FileDescriptor{
		wrapperspb.File_google_protobuf_wrappers_proto, emptypb.File_google_protobuf_empty_proto,
		durationpb.File_google_protobuf_duration_proto, errdetails.File_google_rpc_error_details_proto,
	} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(d))
		file.Dependency = append(file.Dependency, d.Path())
	}
	set.File = append(set.File, file)
	text, err := proto.Marshal(set)
	name := filepath.Join(t.TempDir(), "descriptors")
	if err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	must.Do(t, err)
	return name
}
