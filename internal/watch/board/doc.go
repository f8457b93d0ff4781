// Package board records the progress of a running job. The engine reports events to a Board: batches wait for devices, work
// on them, compute steps and finish; rows are settled. Displays (a terminal, runs/<job>/facts, metrics, traces) read
// the Board's Facts or receive its Spans. The board does not influence the job.
package board
