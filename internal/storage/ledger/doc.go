// Package ledger records which elements are done, one record for each key, in immutable segment files.
//
// Each Commit publishes new segments through internal/storage/store, so a segment is complete or absent. Disks can still fail.
// So every record has checksums, and a damaged segment loses only its damaged records: they are absent, and their rows are
// computed again. Mend replaces such a segment by a new one with its intact records. The ledger does not know the meaning of a
// row, and never changes a segment that has its final name. A new field is added to the JSON row; a new layout gets a new
// version number and a second reader.
//
// # Segment files
//
// A segment's name is ledger/GENERATION-PROCESS-SEQUENCE.seg (8, 16 and 8 hex digits). A process uses a generation above all
// existing ones and a random process number. The order of names is the order of records: of two records for a key, done wins
// over failed, then the later one wins.
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
// Then follow the row (JSON), the blob table (for each blob: uint16 length of the name, the name, uint64 length of the data,
// uint32 checksum of the data), the data of the blobs one after another, and zeros up to the next multiple of 8. Headers alone
// are enough to iterate over a segment; blob data is read on demand.
package ledger
