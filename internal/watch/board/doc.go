// Package board follows a job while it runs. The engine tells a Board what happens: batches wait for devices, work
// on them, take steps and end; rows are settled. Whoever watches (a terminal, runs/<job>/facts, metrics, traces) reads
// the Board's Facts or takes its Spans. It changes nothing of the job.
package board
