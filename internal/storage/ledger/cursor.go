package ledger

import (
	"fmt"
	"slices"
)

// Cursor finds and reads records. It is not safe for concurrent use. If keys are requested in about the order in which they
// were committed, one read of the disk serves many of them. It becomes invalid after a Compact.
type Cursor struct {
	ledger  *Ledger
	reader  *segmentReader
	file    *handle // file of reader; nil at first
	number  uint32  // of its segment
	current header  // header of the last record found
	ref     Ref
	entries []blobEntry
}

// Cursor returns a cursor. The caller must close it before the ledger.
func (l *Ledger) Cursor() *Cursor { return &Cursor{ledger: l, reader: newReader()} }

// Status returns the status of a key.
func (c *Cursor) Status(key Key) (Status, error) {
	c.ref = Ref{}
	ref, err := c.ledger.find(key, func(ref Ref) (bool, error) {
		if err := c.load(ref); err != nil {
			return false, err
		}
		return c.current.key == key, nil
	})
	c.ref = ref
	return ref.status(), err
}

// Find returns the current record for a key. The status is Absent if there is none or if it is found to be damaged. Row is
// valid until the next call. Blobs have name and size but no data, see Blob.
func (c *Cursor) Find(key Key) (Record, error) {
	rec := Record{Key: key}
	var err error
	if rec.Status, err = c.Status(key); err != nil || rec.Status == Absent {
		return rec, err
	}
	body, err := c.reader.body(c.ref.offset(), c.current)
	if err == nil {
		c.entries, err = c.reader.blobs(c.ref.offset(), c.current, body)
	}
	if isDamage(err) {
		c.lose()
		return Record{Key: key}, nil
	}
	if err != nil {
		return rec, fatal(fmt.Errorf("read record of %v: %w", key, err))
	}
	rec.Row = body[:c.current.rowBytes]
	for _, e := range c.entries {
		rec.Blobs = append(rec.Blobs, Blob{Name: e.name, Size: e.size})
	}
	return rec, nil
}

// Blob reads a blob of the record that Find returned last. If the blob is damaged, the record is lost and the error is a
// *DamagedError.
func (c *Cursor) Blob(name string) ([]byte, error) {
	i := slices.IndexFunc(c.entries, func(e blobEntry) bool { return e.name == name })
	if c.ref.status() == Absent || i < 0 {
		return nil, fmt.Errorf("the record of %v has no blob %q", c.current.key, name)
	}
	data, err := c.reader.blob(c.entries[i])
	if isDamage(err) {
		c.lose()
	}
	if err != nil {
		return nil, fatal(fmt.Errorf("read record of %v: %w", c.current.key, err))
	}
	return data, nil
}

// lose drops the current record.
func (c *Cursor) lose() {
	c.ledger.lose(c.current.key.fingerprint(), c.ref)
	c.ref = Ref{}
}

// load reads the header of the record at ref. The caller holds the ledger's lock.
func (c *Cursor) load(ref Ref) (err error) {
	if c.file == nil || c.number != ref.segment() {
		c.Close()
		c.number = ref.segment()
		name := c.ledger.names.name(c.number)
		if c.file, err = c.ledger.files.acquire(name); err != nil {
			return fmt.Errorf("open ledger segment %s: %w", name, err)
		}
		c.reader.reset(name, c.file.file, c.file.file.Size())
	}
	c.current, err = c.reader.header(ref.offset())
	return err
}

// Close releases the cursor's file.
func (c *Cursor) Close() {
	if c.file != nil {
		c.ledger.files.release(c.file)
		c.file = nil
	}
}
