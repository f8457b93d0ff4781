package transforms

import (
	"context"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"

	"latentbeam/stages"
)

// perRow is the ProcessElement of a DoFn that processes every row. Beam calls a perRow directly. It calls other methods by reflection,
// which is slower.
type perRow[T any] func(ctx context.Context, e *stages.Element, emit func(T)) error

var _ reflectx.Func3x1 = perRow[*stages.Element](nil)

// Name implements reflectx.Func.
func (perRow[T]) Name() string { return "latentbeam/transforms.ProcessElement" }

// Type implements reflectx.Func.
func (f perRow[T]) Type() reflect.Type {
	return reflect.TypeFor[func(context.Context, *stages.Element, func(T)) error]()
}

// Call implements reflectx.Func.
func (f perRow[T]) Call(args []any) []any { return []any{f.Call3x1(args[0], args[1], args[2])} }

// Call3x1 implements reflectx.Func3x1.
func (f perRow[T]) Call3x1(ctx, e, emit any) any {
	return f(ctx.(context.Context), e.(*stages.Element), emit.(func(T)))
}

// registerPerRow registers the methods that Beam must not call by reflection.
func registerPerRow() {
	wrap := func(t reflect.Type, process func(fn any) reflectx.Func) {
		reflectx.RegisterStructWrapper(t, func(fn any) map[string]reflectx.Func {
			return map[string]reflectx.Func{"ProcessElement": process(fn)}
		})
	}
	wrap(reflect.TypeFor[KeyFn](), func(fn any) reflectx.Func { return perRow[*stages.Element](fn.(*KeyFn).ProcessElement) })
	wrap(reflect.TypeFor[BucketFn](), func(fn any) reflectx.Func { return perRow[*stages.Batch](fn.(*BucketFn).ProcessElement) })
}
