package fault

// The fault points of the whole program, in the order in which a batch meets them. A hook gets the text of a point, and a crash
// test prints it so that the case can be repeated.
const (
	// StorePutTempCreated: one object has an empty temporary file.
	StorePutTempCreated = "store.put.temp_created"
	// StorePutTempWritten: the bytes of one object are in its temporary file, not yet synced.
	StorePutTempWritten = "store.put.temp_written"
	// StorePutTempSynced: one temporary file is on disk.
	StorePutTempSynced = "store.put.temp_synced"
	// StorePutBeforeRename: one object is about to get its final name.
	StorePutBeforeRename = "store.put.before_rename"
	// StorePutRenamed: one object has its final name, its directory is not yet synced.
	StorePutRenamed = "store.put.renamed"
	// StorePutBeforeDirSync: every object of the batch has its final name.
	StorePutBeforeDirSync = "store.put.before_dir_sync"
	// StorePutDirsSynced: the whole batch would survive a power cut.
	StorePutDirsSynced = "store.put.dirs_synced"

	// StoreReplaceTempCreated: there is an empty temporary file for the new content.
	StoreReplaceTempCreated = "store.replace.temp_created"
	// StoreReplaceTempWritten: the new content is in a temporary file, not yet synced.
	StoreReplaceTempWritten = "store.replace.temp_written"
	// StoreReplaceTempSynced: the new content is on disk under its temporary name.
	StoreReplaceTempSynced = "store.replace.temp_synced"
	// StoreReplaceRenamed: the new content has its final name, the directory is not yet synced.
	StoreReplaceRenamed = "store.replace.renamed"

	// LedgerCommitBeforePut: the files of a batch are published, its ledger segment is not.
	LedgerCommitBeforePut = "ledger.commit.before_put"
	// LedgerCommitAfterPut: the segment is on disk, the index in memory does not know it yet.
	LedgerCommitAfterPut = "ledger.commit.after_put"

	// StepsKept: the steps of a row so far are in the output.
	StepsKept = "engine.steps.kept"

	// LedgerCompactSegmentPut: one rewritten segment is on disk beside the old ones.
	LedgerCompactSegmentPut = "ledger.compact.segment_put"
	// LedgerCompactBeforeRemove: everything is rewritten, every old segment is still there.
	LedgerCompactBeforeRemove = "ledger.compact.before_remove"
	// LedgerCompactRemoved: one old segment is gone.
	LedgerCompactRemoved = "ledger.compact.removed"
)

// Names lists every fault point, so that a crash test can be exhaustive.
func Names() []string {
	return []string{
		StorePutTempCreated,
		StorePutTempWritten,
		StorePutTempSynced,
		StorePutBeforeRename,
		StorePutRenamed,
		StorePutBeforeDirSync,
		StorePutDirsSynced,
		StoreReplaceTempCreated,
		StoreReplaceTempWritten,
		StoreReplaceTempSynced,
		StoreReplaceRenamed,
		StepsKept,
		LedgerCommitBeforePut,
		LedgerCommitAfterPut,
		LedgerCompactSegmentPut,
		LedgerCompactBeforeRemove,
		LedgerCompactRemoved,
	}
}
