package transforms

import (
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"latentbeam/internal/engine/coder"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/stages"
)

// init registers DoFns, coders and emitters. Beam finds them by their types, in the submitting process and in workers.
func init() {
	element, batch, block := reflect.TypeFor[*stages.Element](), reflect.TypeFor[*stages.Batch](), reflect.TypeFor[runfiles.Block]()
	beam.RegisterType(element)
	beam.RegisterType(batch)
	beam.RegisterCoder(element, coder.EncodeElement, coder.DecodeElement)
	beam.RegisterCoder(batch, coder.EncodeBatch, coder.DecodeBatch)
	beam.RegisterType(block)
	beam.RegisterCoder(block, EncodeBlock, DecodeBlock)

	// Do not use the generic functions of Beam's package register, such as DoFn3x1: their code takes 15 s and 1.5 GB to compile. The DoFns
	// that process every row use perRow instead.
	for _, fn := range []any{&ReadFn{}, &KeyFn{}, &BlocksFn{}, &RowsFn{}, &BucketFn{}, &StageFn{}, &PublishFn{}} {
		beam.RegisterDoFn(fn)
	}
	registerPerRow()
	register.Emitter1[*stages.Element]()
	register.Emitter1[*stages.Batch]()
	register.Emitter1[runfiles.Block]()
}
