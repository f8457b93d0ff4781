package stages

import (
	"context"
	"errors"
	"testing"
)

func TestIll(t *testing.T) {
	type key struct{}
	outer := context.WithValue(t.Context(), key{}, 1)
	always := &Set{}
	ctx, cancel := always.Under(outer)
	if ctx.Value(key{}) != 1 || always.Ill() != nil {
		t.Errorf("%v, %v", ctx.Value(key{}), always.Ill())
	}
	if cancel(); ctx.Err() == nil {
		t.Error("cancel does not end the context")
	}

	ill := errors.New("XID 79")
	well, end := context.WithCancelCause(context.Background())
	set := &Set{Well: well}
	ctx, cancel = set.Under(outer)
	defer cancel()
	if ctx.Err() != nil || set.Ill() != nil {
		t.Fatalf("%v, %v", ctx.Err(), set.Ill())
	}
	end(ill)
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), ill) || !errors.Is(set.Ill(), ill) {
		t.Errorf("%v, %v", context.Cause(ctx), set.Ill())
	}
	late, cancel := set.Under(outer)
	defer cancel()
	if <-late.Done(); !errors.Is(context.Cause(late), ill) {
		t.Errorf("a set that was ill before: %v", context.Cause(late))
	}
}
