// Package simulator holds no code. Its tests run whole jobs on a simulated clock. The engine, the ledger and the store are
// real; a bucket, devices, processes and a runner are simulated and fail by a seed. The bucket answers late or not at all, or
// does the request and reports an error. A third of the outputs are directories on a disk that loses power, and with it all
// data that was not synced. Devices are lost, run out of memory, compute nonsense and hang. Processes die at
// any moment. The runner gives a bundle to several processes, gives up bundles and tries them again.
//
//	go test ./internal/engine/simulator                            # some hundred seeds
//	LATENTBEAM_SEEDS=10000 go test ./internal/engine/simulator     # the long form
//	LATENTBEAM_SEED=17 go test -v -run TestJobs ./internal/engine/simulator   # one seed again, with all details
//	LATENTBEAM_FLAWS=1 go test -run TestFlaws ./internal/engine/simulator     # are seeded flaws found?
//
// The seed and the call decide the fault, not the time, so that a seed always gives the same faults. Goroutines that
// wake at the same instant run in any order, so a failure that depends on their order may not repeat.
package simulator
