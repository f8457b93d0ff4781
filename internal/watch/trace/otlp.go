package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otrace "go.opentelemetry.io/otel/trace"

	"latentbeam/internal/watch/board"
)

// Enabled reports whether the standard environment variables of OpenTelemetry enable traces. It returns an error for values that are
// not supported.
func Enabled(getenv func(string) string) (bool, error) {
	endpoint := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || exporter == "none" || endpoint == "" && exporter == "" {
		return false, nil
	}
	if exporter != "" && exporter != "otlp" {
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: only otlp and none are supported", exporter)
	}
	protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	if protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: only http/protobuf is supported; collectors accept it on port 4318",
			protocol)
	}
	return true, nil
}

// OTLP sends spans to a collector. The run is the root span; batches, waits and publishing are its children. Steps and
// exchanges are too many for a collector, so they are only in the file of trace events.
type OTLP struct {
	provider *sdk.TracerProvider
	tracer   otrace.Tracer
	ctx      context.Context
	root     otrace.Span
}

// NewOTLP starts the trace of a run. The standard environment variables set endpoint, headers, certificates, service name and
// sampler.
func NewOTLP(ctx context.Context, run, version string) (*OTLP, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	base, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "latentbeam"),
		attribute.String("service.version", version)), resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, err
	}
	var once sync.Once
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		once.Do(func() { slog.Warn("traces cannot be sent", "error", err) })
	}))
	p := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(base))
	o := &OTLP{provider: p, tracer: p.Tracer("latentbeam")}
	o.ctx, o.root = o.tracer.Start(ctx, "run", otrace.WithAttributes(attribute.String("latentbeam.run", run)))
	return o, nil
}

// Sink returns a sink that sends spans.
func (o *OTLP) Sink() board.Sink { return board.Sink{Record: o.record} }

// record sends a span.
func (o *OTLP) record(s board.Span) {
	if s.Kind == board.Row && s.Failure == "" {
		return // the spans of publishing count these rows
	}
	attrs := []attribute.KeyValue{attribute.String("latentbeam.stage", s.Stage), attribute.Int("latentbeam.rows", s.Count),
		attribute.StringSlice("latentbeam.row_ids", s.Rows)}
	if s.Shape != "" {
		attrs = append(attrs, attribute.String("latentbeam.shape", s.Shape))
	}
	if len(s.Devices) > 0 {
		attrs = append(attrs, attribute.StringSlice("latentbeam.devices", s.Devices))
	}
	name := s.Stage
	switch s.Kind {
	case board.Wait:
		name = "wait for " + s.Stage
	case board.Row:
		name = "row failed"
	}
	_, span := o.tracer.Start(o.ctx, name, otrace.WithTimestamp(s.Begin), otrace.WithAttributes(attrs...))
	if s.Error != "" {
		span.SetStatus(codes.Error, s.Error)
	}
	span.End(otrace.WithTimestamp(s.End))
}

// closeTimeout limits how long Close waits for the collector.
const closeTimeout = 10 * time.Second

// Close ends the root span with err and sends the remaining spans.
func (o *OTLP) Close(err error) {
	if err != nil {
		o.root.SetStatus(codes.Error, err.Error())
	}
	o.root.End()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), closeTimeout)
	defer cancel()
	if err := o.provider.Shutdown(ctx); err != nil {
		slog.Warn("the last traces were not sent", "error", err)
	}
}
