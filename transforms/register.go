package transforms

import (
	"context"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"latentbeam/stages"
)

// Beam resolves DoFns, coders and emitters by registered type, on both sides of a process border. This
// is the only init function of the house.
func init() {
	element, batch := reflect.TypeFor[*stages.Element](), reflect.TypeFor[*stages.Batch]()
	beam.RegisterType(element)
	beam.RegisterType(batch)
	beam.RegisterCoder(element, encodeElement, decodeElement)
	beam.RegisterCoder(batch, encodeBatch, decodeBatch)

	register.DoFn3x1[context.Context, []byte, func(*stages.Element), error](&ReadFn{})
	register.DoFn3x1[context.Context, *stages.Element, func(*stages.Element), error](&KeyFn{})
	register.DoFn3x0[context.Context, *stages.Element, func(*stages.Batch)](&BucketFn{})
	register.DoFn3x1[context.Context, *stages.Batch, func(*stages.Batch), error](&StageFn{})
	register.DoFn2x1[context.Context, *stages.Batch, error](&PublishFn{})
	register.Emitter1[*stages.Element]()
	register.Emitter1[*stages.Batch]()
}
