package cpu

// calls is the state of the operations on rows: the one in progress, and the tasks of all as values, made
// once. So a call allocates nothing.
type calls struct {
	span      span
	pieces    pieces
	norm      norm
	rope      rotation
	turned    [2]func(w *worker, from, to int) // the passes of a norm with a rotation
	attention attention
	tasks     tasks
}

// span is a call of eachSpan: n items, per of them in a task.
type span struct {
	n, per int
	f      func(w *worker, from, to int)
}

// tasks are the methods of the backend that crews and walks are given.
type tasks struct {
	span, moments                                    func(w *worker, i int)
	pieces, norm, groupNorm, rope, turned, attention func(w *worker, from, to int)
	unary, binary, upload, download                  piece
}

func newTasks(b *Backend) tasks {
	return tasks{
		span: b.runSpan, moments: b.runMoments,
		pieces: b.runPieces, norm: b.runNorm, groupNorm: b.runGroupNorm, rope: b.runRope, turned: b.runTurned, attention: b.runAttention,
		unary: b.runUnary, binary: b.runBinary, upload: b.runUpload, download: b.runDownload,
	}
}
