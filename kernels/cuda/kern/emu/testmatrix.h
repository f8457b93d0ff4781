// Matrices of the tests: rows that lie in memory in one of three ways.
#pragma once
#include "testlib.h"

// Layout: dense rows; rows and columns apart, from an odd element on; columns first.
enum Layout { DENSE, PADDED, REVERSED, LAYOUTS };

// Matrix is m x n numbers on the device in a layout, and what they are as float64. Around them is NaN.
struct Matrix {
	int m, n;
	Layout layout;
	lb_i64 row, col, start;
	Buffer data;
	std::vector<double> value;

	Matrix(int dtype, int m, int n, Layout layout);
	void random(Random &r);
	lb_view view(lb_i64 from_row = 0) const; // for a shape of one axis
	size_t index(int i, int j) const { return (size_t)(start + i * row + j * col); }
	double get(int i, int j) const { return data.get(index(i, j)); }
	uint32_t bits(int i, int j) const { return data.bits(index(i, j)); }
	double at(int i, int j) const { return value[(size_t)i * n + j]; }
	// outside fails the test where something but the m x n elements is not NaN.
	void outside(const std::string &what) const;
};

lb_shape one_axis(int n);
