package transforms

import (
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"latentbeam/internal/engine/coder"
	"latentbeam/internal/watch/runfiles"
	"latentbeam/stages"
)

// Beam finds DoFns, coders and emitters by registered type, in the submitting process and in workers. This
// is the only init function of the module.
func init() {
	element, batch, block := reflect.TypeFor[*stages.Element](), reflect.TypeFor[*stages.Batch](), reflect.TypeFor[runfiles.Block]()
	beam.RegisterType(element)
	beam.RegisterType(batch)
	beam.RegisterCoder(element, coder.EncodeElement, coder.DecodeElement)
	beam.RegisterCoder(batch, coder.EncodeBatch, coder.DecodeBatch)
	beam.RegisterType(block)
	beam.RegisterCoder(block, EncodeBlock, DecodeBlock)

	// Not register.DoFn3x1 and its like: those generate code that takes 15 s and 1.5 GB to compile. perRow serves the DoFns that see every row.
	for _, fn := range []any{&ReadFn{}, &KeyFn{}, &BlocksFn{}, &RowsFn{}, &BucketFn{}, &StageFn{}, &PublishFn{}} {
		beam.RegisterDoFn(fn)
	}
	registerPerRow()
	register.Emitter1[*stages.Element]()
	register.Emitter1[*stages.Batch]()
	register.Emitter1[runfiles.Block]()
}
