#include "testmatrix.h"

static size_t room(int m, int n, Layout l) { return l == PADDED ? (size_t)(m + 2) * (n + 3) : (size_t)m * n; }

Matrix::Matrix(int dtype, int m, int n, Layout l)
	: m(m), n(n), layout(l), row(l == REVERSED ? 1 : l == PADDED ? n + 3 : n), col(l == REVERSED ? m : 1),
	  start(l == PADDED ? n + 4 : 0), data(dtype, room(m, n, l)), value((size_t)m * n)
{
}

void Matrix::random(Random &r)
{
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			value[(size_t)i * n + j] = r.next(data.dtype());
			data.set(index(i, j), value[(size_t)i * n + j]);
		}
}

lb_view Matrix::view(lb_i64 from_row) const
{
	lb_view v = {};
	v.ptr = data.at((size_t)(start + from_row * row));
	v.stride[0] = row;
	v.col = col;
	v.dtype = data.dtype();
	return v;
}

void Matrix::outside(const std::string &what) const
{
	std::vector<bool> ours(data.size());
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++)
			ours[index(i, j)] = true;
	for (size_t i = 0; i < data.size(); i++)
		if (!ours[i] && data.get(i) == data.get(i))
			fail("%s: element %zu beside the destination was written", what.c_str(), i);
}

lb_shape one_axis(int n)
{
	lb_shape s = {};
	s.axes = 1;
	s.dim[0] = n;
	return s;
}
