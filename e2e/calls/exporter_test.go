package calls

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A sink is a collector that counts spans by their names.
type sink struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string]int
}

func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.spans[span.Name]++
			}
		}
	}
	return new(collector.ExportTraceServiceResponse), nil
}

// A witness is an exporter that keeps the last error.
type witness struct {
	trace.SpanExporter
	err error
}

func (w *witness) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if err := w.SpanExporter.ExportSpans(ctx, spans); err != nil {
		w.err = err
	}
	return nil // an error would be logged
}

// TestExporter exports spans to a limited collector. Without RetryInfo, the exporter would drop a denied batch.
func TestExporter(t *testing.T) {
	t.Parallel()
	for why, serve := range map[string]func(t *testing.T, s *sink, l *core.Limiter, w headers.Writer) string{
		"grpclimit": func(t *testing.T, s *sink, l *core.Limiter, w headers.Writer) string {
			server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpclimit.Unary(l, grpclimit.WithHeaders(w))))
			collector.RegisterTraceServiceServer(server, s)
			return listen(t, server)
		},
		"stdlib": func(t *testing.T, s *sink, l *core.Limiter, w headers.Writer) string {
			server := grpc.NewServer()
			collector.RegisterTraceServiceServer(server, s)
			return serve(t, stdlib.New(l, stdlib.WithHeaders(w))(server))
		},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			// export exports batches of ten spans, and returns the error of the exporter and how many batches the server denied.
			export := func(l *core.Limiter, batches int) (s *sink, denied int, err error) {
				s = &sink{spans: map[string]int{}}
				var turn time.Time
				address := serve(t, s, l, func(_ http.Header, d core.Decision) {
					s.mu.Lock()
					defer s.mu.Unlock()
					expect.AtMost(t, time.Until(turn), 0, "time by which a retry came too early")
					turn = time.Time{}
					if !d.Allowed {
						denied++
						turn = time.Now().Add(d.RetryAfter())
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), wire.Timeout)
				defer cancel()
				exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(address), otlptracegrpc.WithInsecure(), otlptracegrpc.WithTimeout(wire.Timeout),
					// Its own backoff is short, so only the RetryInfo can make it wait.
					otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: time.Millisecond, MaxElapsedTime: wire.Timeout}))
				must.Do(t, err)
				w := &witness{SpanExporter: exporter}
				provider := trace.NewTracerProvider(trace.WithBatcher(w, trace.WithMaxExportBatchSize(10), trace.WithBatchTimeout(time.Hour)))
				for i := range 10 * batches {
					_, span := provider.Tracer("test").Start(ctx, fmt.Sprint("span ", i))
					span.End()
				}
				if err := provider.Shutdown(ctx); err != nil { // it exports all spans first
					t.Error(err)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				return s, denied, w.err
			}

			s, denied, err := export(core.Must(core.New([]core.Rule{core.PerSecond(5).WithBurst(1).By(keyfunc.RemoteIP)})), 4)
			expect.True(t, err == nil && len(s.spans) == 40 && denied <= 3,
				"%d spans arrived, %d batches were denied, %v; want 40 spans and at most 3 denials", len(s.spans), denied, err)
			for name, n := range s.spans {
				expect.Equal(t, n, 1, "how often %s arrived", name)
			}

			for why, wait := range map[string]time.Duration{"a day": 24 * time.Hour, "never": core.Never} {
				s, denied, err := export(limiterOf(verdict{wait: wait}, keyfunc.Const("all"), "spans"), 1)
				expect.True(t, codeOf(err) == codes.ResourceExhausted && len(s.spans) == 0 && denied == 1,
					"%s: %d batches were denied, %v; want one denial: a retry is useless", why, denied, err)
			}
		})
	}
}
