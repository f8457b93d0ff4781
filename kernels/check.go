package kernels

import (
	"errors"
	"fmt"
	"slices"
)

// Check returns an error if the shapes or options of a Norm call of x into dst are invalid. The backend itself checks element
// types and strides.
func (s *NormSpec) Check(dst, x *Tensor) error {
	if !slices.Equal(dst.Shape, x.Shape) {
		return fmt.Errorf("x %v for dst %v", x.Shape, dst.Shape)
	}
	if len(x.Shape) == 0 {
		return errors.New("x has no axis")
	}
	vector := x.Shape[len(x.Shape)-1:]
	switch {
	case s.Kind > GroupNorm:
		return fmt.Errorf("kind %d is not supported", s.Kind)
	case s.Act > Tanh:
		return fmt.Errorf("unary operation %d is not supported", s.Act)
	case s.Kind == GroupNorm && (len(x.Shape) != 4 || s.Groups < 1 || vector[0]%s.Groups != 0):
		return fmt.Errorf("group norm of %d groups needs x (N, H, W, C) with C a multiple of the groups, x is %v", s.Groups, x.Shape)
	case !s.Weight.IsZero() && !slices.Equal(s.Weight.Shape, vector) && !s.WeightOfRows(x):
		return fmt.Errorf("weight %v for x %v", s.Weight.Shape, x.Shape)
	case !s.Bias.IsZero() && !slices.Equal(s.Bias.Shape, vector):
		return fmt.Errorf("bias %v for x %v", s.Bias.Shape, x.Shape)
	case s.Scale.IsZero() != s.Shift.IsZero():
		return errors.New("scale and shift must be given together")
	case !s.Scale.IsZero() && (!slices.Equal(s.Scale.Shape, x.Shape) || !slices.Equal(s.Shift.Shape, x.Shape)):
		return fmt.Errorf("scale %v and shift %v for x %v", s.Scale.Shape, s.Shift.Shape, x.Shape)
	}
	return s.checkRotation(x)
}

// checkRotation checks the operands of the rotation.
func (s *NormSpec) checkRotation(x *Tensor) error {
	switch {
	case s.Cos.IsZero() && s.Sin.IsZero():
		return nil
	case s.Cos.IsZero() || s.Sin.IsZero():
		return errors.New("cos and sin must be given together")
	case s.Kind != RMSNorm || !s.Bias.IsZero() || !s.Scale.IsZero() || s.Act != Identity:
		return errors.New("a rotation needs RMSNorm without bias, scale, shift and activation")
	}
	return CheckRope(x, &s.Cos, &s.Sin)
}

// WeightOfRows reports whether the weight has x's shape, so that each row can have its own weight.
func (s *NormSpec) WeightOfRows(x *Tensor) bool {
	return s.Kind == RMSNorm && len(x.Shape) > 1 && slices.Equal(s.Weight.Shape, x.Shape)
}

// CheckRope returns an error if the shapes of a rotation of x by angles do not fit.
func CheckRope(x, cos, sin *Tensor) error {
	last := len(x.Shape) - 1
	if last < 0 || x.Shape[last]%2 != 0 || !isHalfLength(cos.Shape, x.Shape) || !isHalfLength(sin.Shape, x.Shape) {
		return fmt.Errorf("x %v, cos %v and sin %v are not (..., D) of even D and (..., D/2) twice",
			x.Shape, cos.Shape, sin.Shape)
	}
	return nil
}

// isHalfLength reports whether half equals full except for the last axis, which has half the length.
func isHalfLength(half, full []int) bool {
	last := len(full) - 1
	return len(half) == last+1 && slices.Equal(half[:last], full[:last]) && half[last] == full[last]/2
}
