package stages

import (
	"context"
	"errors"
	"testing"
)

func TestHealthError(t *testing.T) {
	type key struct{}
	outer := context.WithValue(t.Context(), key{}, 1)
	always := &Set{}
	ctx, cancel := always.WithHealth(outer)
	if ctx.Value(key{}) != 1 || always.HealthError() != nil {
		t.Errorf("%v, %v", ctx.Value(key{}), always.HealthError())
	}
	if cancel(); ctx.Err() == nil {
		t.Error("cancel does not end the context")
	}

	lost := errors.New("XID 79")
	health, end := context.WithCancelCause(context.Background())
	set := &Set{Health: health}
	ctx, cancel = set.WithHealth(outer)
	defer cancel()
	if ctx.Err() != nil || set.HealthError() != nil {
		t.Fatalf("%v, %v", ctx.Err(), set.HealthError())
	}
	end(lost)
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), lost) || !errors.Is(set.HealthError(), lost) {
		t.Errorf("%v, %v", context.Cause(ctx), set.HealthError())
	}
	late, cancel := set.WithHealth(outer)
	defer cancel()
	if <-late.Done(); !errors.Is(context.Cause(late), lost) {
		t.Errorf("a set whose device failed before: %v", context.Cause(late))
	}
}
