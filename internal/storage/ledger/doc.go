// Package ledger remembers what is done, one record per element key, in immutable segment files.
//
// Each Commit publishes new segments through internal/storage/store, so a segment is whole or absent. Disks fail all
// the same, so every record carries checksums, and a damaged segment costs no more than its damaged records:
// they are absent, and their rows are computed anew. Mend replaces such a segment by one of its sound records.
// What never enters: what a row means, and any change to a segment that has its final name. A new field goes
// into the JSON row; a new layout gets a new version number and a reader beside the old one.
//
// # Segment files
//
// A segment is called ledger/GENERATION-PROCESS-SEQUENCE.seg (8, 16 and 8 hex digits). A process
// takes a generation above all it finds and a random process number. Names in order are records in
// order: of two records of a key, done beats failed, then the later one counts.
//
// All integers are little endian, all checksums CRC-32C. A segment starts with 32 bytes:
//
//	 0  magic "LBLEDGER"
//	 8  uint32 version, 1
//	12  uint32 number of records
//	16  uint64 size of the whole file in bytes
//	24  uint32 zero
//	28  uint32 checksum of bytes 0 to 27
//
// Records follow, each at a multiple of 8 bytes, with a header of 64 bytes:
//
//	 0  key, 32 bytes
//	32  uint32 length of the row
//	36  uint32 length of the blob table
//	40  uint64 length of the blob data
//	48  uint16 number of blobs
//	50  uint8 status: 1 done, 2 failed
//	51  zeros
//	56  uint32 checksum of row and blob table
//	60  uint32 checksum of bytes 0 to 59
//
// Then the row (JSON), the blob table (per blob: uint16 length of the name, the name, uint64 length
// of the data, uint32 checksum of the data), the blobs' data one after another, and zeros up to the
// next multiple of 8. Headers alone are enough to walk a segment; blob data is read only when asked.
package ledger
