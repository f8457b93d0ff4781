// Operands of the tests of kernels, laid out in all the ways a view may lie.
#pragma once
#include "testlib.h"
#include <memory>

typedef std::vector<int> Shape;

inline size_t count(const Shape &s)
{
	size_t n = 1;
	for (int d : s)
		n *= (size_t)d;
	return n;
}

// How an operand lies in memory: row-major; inside a larger tensor, at odd addresses; with its axes reversed.
enum Layout { DENSE, PADDED, REVERSED, LAYOUTS };

// Operand is a strided tensor whose surroundings are NaN and must stay so.
class Operand {
public:
	Operand(int dtype, Layout l, const Shape &shape) : shape(shape), strides(shape.size())
	{
		size_t n = 1;
		for (size_t k = 0; k < shape.size(); k++) {
			size_t ax = l == REVERSED ? k : shape.size() - 1 - k;
			strides[ax] = (lb_i64)n;
			n *= (size_t)shape[ax] + (l == PADDED ? 3 : 0);
			if (l == PADDED)
				offset += strides[ax];
		}
		buffer = std::make_shared<Buffer>(dtype, n);
	}
	Operand(int dtype, Layout l, const Shape &shape, Random &r) : Operand(dtype, l, shape)
	{
		for (size_t i = 0; i < count(shape); i++)
			set(i, r.next(dtype));
	}

	// expand repeats axes of length 1 up to another shape of as many axes.
	Operand expand(const Shape &wide) const
	{
		Operand o = *this;
		for (size_t ax = 0; ax < wide.size(); ax++)
			if (shape[ax] != wide[ax])
				o.strides[ax] = 0;
		o.shape = wide;
		return o;
	}
	size_t place(size_t i) const
	{
		lb_i64 at = offset;
		for (size_t ax = shape.size(); ax-- > 0; i /= (size_t)shape[ax])
			at += (lb_i64)(i % (size_t)shape[ax]) * strides[ax];
		return (size_t)at;
	}
	double get(size_t i) const { return buffer->get(place(i)); }
	uint32_t bits(size_t i) const { return buffer->bits(place(i)); }
	void set(size_t i, double v) { buffer->set(place(i), v); }
	int dtype() const { return buffer->dtype(); }

	// view has the first `axes` axes of the shape, all of them by default; col is the stride of the last one.
	lb_view view(size_t axes = 99) const
	{
		lb_view v = {};
		v.ptr = buffer->at((size_t)offset);
		for (size_t ax = 0; ax < shape.size() && ax < axes; ax++)
			v.stride[ax] = strides[ax];
		v.col = shape.empty() ? 1 : strides.back();
		v.dtype = dtype();
		return v;
	}
	// untouched fails where something beside the view was written.
	void untouched(const std::string &what) const
	{
		std::vector<bool> own(buffer->size());
		for (size_t i = 0; i < count(shape); i++)
			own[place(i)] = true;
		for (size_t i = 0; i < own.size(); i++)
			if (!own[i] && buffer->get(i) == buffer->get(i)) {
				fail("%s: element %zu beside the destination was written", what.c_str(), i);
				return;
			}
	}

	Shape shape;
	std::vector<lb_i64> strides;
	lb_i64 offset = 0;
	std::shared_ptr<Buffer> buffer;
};

inline lb_shape shape_of(const Shape &s, size_t axes = 99)
{
	lb_shape out = {};
	for (size_t ax = 0; ax < s.size() && ax < axes; ax++)
		out.dim[out.axes++] = s[ax];
	if (!out.axes)
		out.dim[out.axes++] = 1;
	return out;
}

static const char *const layout_names[] = {"dense", "padded", "reversed"};
static const char *const dtype_names[] = {"f32", "bf16", "f16"};
