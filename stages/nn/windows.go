package nn

import "latentbeam/kernels"

// Windows divides the patch grid of every frame into windows of Rows x Cols patches. The last windows are smaller if the grid
// is not a multiple. The zero value means no windows.
//
// The reference pads the grid to whole windows and masks the padded keys. The result is the same: a padded token never affects
// another one.
type Windows struct {
	Rows, Cols int
	Grid       [2]int // rows and columns of the patch grid with S patches
}

// attendWindows computes the attention inside each window over all its frames: qkv (B, T, S, 3, H, D), out (B, T, S, H, D). It
// copies one band of windows at a time, so that its tokens are adjacent.
func (a SelfAttention) attendWindows(be kernels.Backend, out, qkv kernels.Tensor, rope Rope, win Windows) {
	b, t, heads, d := out.Dim(0), out.Dim(1), out.Dim(3), out.Dim(4)
	rows, cols := win.Grid[0], win.Grid[1]
	qkv = qkv.Reshape(b, t, rows, cols, 3*heads, d)
	out = out.Reshape(b, t, rows, cols, heads, d)
	for row := 0; row < rows; row += win.Rows {
		h := min(win.Rows, rows-row)
		for col := 0; col < cols; {
			n, w := (cols-col)/win.Cols, win.Cols // whole windows, then the smaller one at the edge
			if n == 0 {
				n, w = 1, cols-col
			}
			band := func(x kernels.Tensor) kernels.Tensor { // (B, n, h, w, T, ., D)
				x = x.Narrow(2, row, h).Narrow(3, col, n*w)
				return x.Reshape(b, t, h, n, w, x.Dim(4), d).Permute(0, 3, 2, 4, 1, 5, 6)
			}
			a.attendBand(be, band(out), band(qkv), rope.Narrow(0, Span{Len: h}).Narrow(1, Span{Len: w}))
			col += n * w
		}
	}
}

// attendBand is attendWindows for n windows side by side: qkv (B, n, h, w, T, 3H, D) and out (B, n, h, w, T, H, D) are strided;
// rope is (h, w, T, D/2).
func (a SelfAttention) attendBand(be kernels.Backend, out, qkv kernels.Tensor, rope Rope) {
	defer be.Scope()()
	near := be.Alloc(qkv.DType, qkv.Shape...)
	be.Copy(near, qkv)
	b, n, h, w, t, d := out.Dim(0), out.Dim(1), out.Dim(2), out.Dim(3), out.Dim(4), out.Dim(6)
	near = near.Reshape(b*n, h, w, t, 3, a.Heads, d)
	a.rotate(be, near, rope)
	result := be.Alloc(out.DType, b*n, h*w*t, a.Heads, d)
	a.attend(be, result, near.Reshape(b*n, h*w*t, 3, a.Heads, d))
	be.Copy(out, result.Reshape(out.Shape...))
}
