// Package same has no code. Its test runs whole jobs with the program and compares the results with a record from an earlier commit:
// keys and results of rows, tables, exit codes, and texts for people. A refactoring must not change the record.
//
// The test uses only the command line of the program. It imports no other package of this module, so changes to packages do not
// break it.
//
//	make same                                        # all cases, about a minute and a half on two processors
//	go test -short ./internal/dev/same               # cases with the line "short", in plain Go
//	make same RUN=TestSame/avx2/seams                # one case in one class
//	make same SAME=write                             # write the record again, after an intended change
//	LATENTBEAM_BINARY=/tmp/latentbeam-old make same  # the cases with another build of the program
//
// # Cases
//
// A case is a file in testdata/cases. It begins with lines of a script; "-- NAME --" begins a file that the case
// needs. The case runs in a new directory, where testdata is that of the repository.
//
//	# text               a comment
//	short                also runs with go test -short, in plain Go
//	only CLASS           runs only in this numeric class: go, avx2 or cuda
//	counts               compare how often kernels were called, too: it does not depend on timing
//	apart                the classes print different text
//	whole                show the configuration in summary.json, too
//	$ run job.yaml       runs the program; its exit code is recorded
//	show PATH            shows a file that people read, such as a page
//	env NAME=VALUE       for the calls that follow; an empty value removes it
//	model NAME DIR       writes a checkpoint of testdata/models with hashed weights to DIR
//	weights NAME FILE    writes only its tensors, without config.json
//	picture FILE R G B   writes a png of one colour
//	input FILE           copies a file of testdata/inputs
//	restore NAME DIR     copies an output of an earlier program from testdata/outputs
//	copy FROM TO         copies a file, for instance an edited prompt table
//	remove FILE          removes a file that a glob names
//	ignore PATH          does not compare files whose paths begin with PATH
//	worker NAME ARGS     starts a worker; $NAME is its address
//
// # Records
//
// The first line of each file of the record names the commit of the program that made it, from git or the build information. Keys and
// digests are the first 16 hex digits of a SHA-256; digests of columns are the first 12.
//
// testdata/results/CLASS/CASE.txt lists the changes of each call of the program:
//
//	rows OUTPUT      rows by their ids: the key, and the digests of the tensors in the tables
//	files FOLDER     digests of videos, pictures and other files; for text files only that they exist
//	ledger FOLDER    records by their keys: the fields of the row, and the digests of its blobs
//	table FILE       columns by name: the type, and the digest of all values; in parentheses, metadata of the file
//	tensors FILE     tensors of a safetensors file: type, shape and digest
//	archive FILE     digests of the members of a tar file
//	... as N PLACE   the same lines as for PLACE after call N
//
// A result may change only together with the key of its row, because outputs of earlier programs have the old result
// under the old key. The test names rows whose result changed under the same key, and SAME=write does not record them. A new
// column, or a new field of a ledger's row, adds to the record and changes nothing else in it.
//
// testdata/texts/CASE.txt has the output of each call, the fields of summary.json that changed since the previous call, and the files
// that the case shows. It is equal in all classes, except for cases with the line "apart". Only this record pins whole pages and
// messages, apart from the help of the verbs (docs/reference.md) and the mistakes in a job file (internal/config/testdata). Times,
// rates and values that depend on the machine are left out (text_test.go). A long line that the case has printed before is cut.
package same
