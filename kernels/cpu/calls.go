package cpu

// callState is the state of the operations on rows: the current call, and the tasks of all operations as function values, made
// once. So a call allocates nothing.
type callState struct {
	span           span
	pieces         pieces
	norm           norm
	rope           rotation
	ropeNormPasses [2]func(w *worker, from, to int) // the passes of a norm with a rotation
	attention      attention
	tasks          tasks
}

// span is a call of eachSpan: n items in tasks of per items.
type span struct {
	n, per int
	f      func(w *worker, from, to int)
}

// tasks holds methods of the backend as function values, for crew.run, eachSpan and eachRun.
type tasks struct {
	span, moments                                      func(w *worker, i int)
	pieces, norm, groupNorm, rope, ropeNorm, attention func(w *worker, from, to int)
	unary, binary, upload, download                    piece
}

func newTasks(b *Backend) tasks {
	return tasks{
		span: b.runSpan, moments: b.runMoments,
		pieces: b.runPieces, norm: b.runNorm, groupNorm: b.runGroupNorm, rope: b.runRope, ropeNorm: b.runRopeNorm, attention: b.runAttention,
		unary: b.runUnary, binary: b.runBinary, upload: b.runUpload, download: b.runDownload,
	}
}
