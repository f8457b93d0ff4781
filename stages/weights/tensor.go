package weights

import "latentbeam/kernels"

// chunksOfRank is the number of chunks of rows for each rank when a sum passes from rank to rank. While one rank adds its parts
// to a chunk, the next rank works on the chunk before.
const chunksOfRank = 4

// TensorParallel returns the backend for one rank of tensor parallelism: be, and for layers with split sums the other ranks of
// g. Every rank runs the same model, loaded with its Cut, on the same input. Every rank gets the same result, which has the
// bits of a single rank. An error of an exchange is stored as an error of the backend.
func TensorParallel(be kernels.Backend, g *kernels.Group) kernels.Backend {
	if g.Size() == 1 {
		return be
	}
	return &tensorParallel{Backend: be, group: g}
}

type tensorParallel struct {
	kernels.Backend
	group *kernels.Group
	err   error
}

// cutOf returns which part of the layers a rank of TensorParallel has. For other backends it is everything.
func cutOf(be kernels.Backend) Cut {
	if t, ok := be.(*tensorParallel); ok {
		return Cut{Rank: t.group.Rank(), Ways: t.group.Size()}
	}
	return Cut{}
}

// Wait returns the first error of this rank or of an exchange.
func (t *tensorParallel) Wait() error {
	if t.err != nil {
		return t.err
	}
	return t.Backend.Wait()
}

// Download returns the first error too; otherwise it is the backend's Download.
func (t *tensorParallel) Download(dst []float32, src kernels.Tensor) error {
	if t.err != nil {
		return t.err
	}
	return t.Backend.Download(dst, src)
}

// SumAcross computes dst = ep(x w^T) if be is a TensorParallel whose ranks share the columns of x and w. For any other backend
// it does nothing and returns false.
func SumAcross(be kernels.Backend, dst, x, w kernels.Tensor, ep kernels.Epilogue) bool {
	t, ok := be.(*tensorParallel)
	if ok {
		t.sum(dst, x, w, ep)
	}
	return ok
}

// sum computes dst = ep(x w^T), where each rank has some columns of x (..., K) and w (N, K). The sums pass from rank to rank,
// and each rank adds its parts, so that the order is the same as on one rank. Then all ranks receive them and apply ep.
func (t *tensorParallel) sum(dst, x, w kernels.Tensor, ep kernels.Epilogue) {
	if t.err != nil {
		return
	}
	defer t.Scope()()
	k, n := x.Dim(-1), w.Dim(0)
	if !x.Contiguous() {
		dense := t.Alloc(x.DType, x.Shape...)
		t.Copy(dense, x)
		x = dense
	}
	rows := x.Reshape(x.Len()/max(1, k), k)      // (M, K)
	sums := t.Alloc(kernels.F32, rows.Dim(0), n) // (M, N)
	if t.err = t.sumInOrder(sums, rows, w, kernels.Epilogue{Parts: ep.Parts, Int8: ep.Int8}); t.err != nil {
		return
	}
	ep.Parts, ep.Onto = nil, sums.Reshape(dst.Shape...)
	t.Backend.Linear(dst, x.Narrow(-1, 0, 0), w.Narrow(1, 0, 0), ep)
}

// sumInOrder computes sums (M, N): chunks of rows pass all ranks in order, and each rank adds x (M, K) w^T; then all ranks
// receive them from the last. A chunk that is being sent is a tensor of its own that is not modified meanwhile.
func (t *tensorParallel) sumInOrder(sums, x, w kernels.Tensor, ep kernels.Epilogue) error {
	m, last := x.Dim(0), t.group.Size()-1
	chunks := make([]kernels.Tensor, min(m, chunksOfRank*t.group.Size()))
	rows := func(of kernels.Tensor, i int) kernels.Tensor {
		return of.Narrow(0, i*m/len(chunks), (i+1)*m/len(chunks)-i*m/len(chunks))
	}
	for i := range chunks {
		chunks[i] = t.Alloc(kernels.F32, rows(sums, i).Shape...)
	}
	chunk := func(i int) kernels.Tensor { return chunks[i] }
	err := Chain(t.group, "tensor relay", len(chunks), chunk, func(i int) error {
		ep := ep
		if t.group.Rank() > 0 {
			ep.Onto = chunks[i]
		}
		t.Backend.Linear(chunks[i], rows(x, i), w, ep)
		return nil
	})
	if err != nil {
		return err
	}
	var send, recv []kernels.Part
	for i, c := range chunks {
		if t.group.Rank() < last {
			recv = append(recv, kernels.Part{Peer: last, View: rows(sums, i)})
			continue
		}
		for peer := range last {
			send = append(send, kernels.Part{Peer: peer, View: c})
		}
		t.Copy(rows(sums, i), c)
	}
	return t.group.Exchange("tensor sums", send, recv)
}
