// Package same holds no code. Its test runs whole jobs with the program and compares everything they write with a
// record of an earlier commit: bytes of files, exit codes, and what the program prints. A refactoring must leave the
// record as it is.
//
// The test knows the program by its command line alone. It imports no other package of this module, so it survives
// any change of their interfaces.
//
//	make same                                        # all cases, about a minute and a half on two processors
//	go test ./internal/dev/same                          # cases with the line "short", in plain Go
//	make same RUN=TestSame/avx2/seams                # one case in one class
//	make same SAME=write                             # record anew, after a change that is meant
//	LATENTBEAM_BINARY=/tmp/latentbeam-old make same  # the cases with another build of the program
//
// # Cases
//
// A case is a file in testdata/cases. It begins with lines of a script; "-- NAME --" begins a file that the case
// needs. The case runs in a new directory, where testdata is that of the repository.
//
//	# text               a comment
//	short                also runs without LATENTBEAM_SAME, in plain Go
//	only CLASS           runs in this numeric class alone: go, avx2 or cuda
//	counts               compare how often kernels were called, too: it does not depend on timing
//	apart                the classes print different text
//	whole                show all of summary.json in the text, not only its parts that people read
//	$ run job.yaml       runs the program; its exit code is recorded
//	env NAME=VALUE       for the calls that follow; an empty value removes it
//	model NAME DIR       writes a checkpoint of testdata/models with hashed weights to DIR
//	weights NAME FILE    writes its tensors alone, without config.json
//	picture FILE R G B   writes a png of one colour
//	input FILE           copies a file of testdata/inputs
//	restore NAME DIR     copies an output of an earlier program from testdata/outputs
//	copy FROM TO         copies a file, for instance an edited prompt table
//	remove FILE          removes a file that a glob names
//	ignore PATH          what calls write at paths that begin so is not compared
//	worker NAME ARGS     starts a worker; $NAME is its address
//
// # Records
//
// testdata/digests.txt has a line for each class, case and file that a call of the program wrote, with the SHA-256 of
// its content. The path begins with the number of the call. testdata/texts has
// what each case prints, which is equal in all classes but for
// cases with the line "apart". Some content depends on time or machine and is replaced or
// left out before it is compared (canonical_test.go): lock files, names of ledger segments, times, rates and
// everything computed from them.
package same
