// Package simulator holds no code. Its tests run whole jobs on a simulated clock: engine, ledger and store as they are,
// over a bucket, devices, processes and a runner that fail by a seed. The bucket answers late, not at all, or does what it
// was asked and says that it did not. A third of the outputs are directories on a disk that loses power, and with it all
// that was not synced. Devices are lost, run out of memory, compute nonsense and hang. Processes die at
// any moment. The runner gives a bundle to several processes, gives up bundles and tries them again.
//
//	go test ./internal/engine/simulator                            # some hundred seeds
//	LATENTBEAM_SEEDS=10000 go test ./internal/engine/simulator     # the long form
//	LATENTBEAM_SEED=17 go test -v -run TestJobs ./internal/engine/simulator   # one seed again, told in full
//	LATENTBEAM_FLAWS=1 go test -run TestFlaws ./internal/engine/simulator     # are seeded flaws found?
//
// The seed and the call decide the fault, not the time, so that a seed meets the same faults again. Goroutines that
// wake in one instant run in any order; a failure is replayable as far as it does not hang on that.
package simulator
