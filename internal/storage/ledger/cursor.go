package ledger

import (
	"fmt"
	"slices"
)

// Cursor finds and reads records for one goroutine. Where keys are asked for in about the order in which
// they were committed, many of them cost one read of the disk together. It is not valid after a Compact.
type Cursor struct {
	ledger  *Ledger
	reader  *segmentReader
	file    *handle // of reader, nil at first
	number  uint32  // of its segment
	current header  // of the record found last
	ref     Ref
	entries []blobEntry
}

// Cursor returns a cursor, which the caller closes before the ledger.
func (l *Ledger) Cursor() *Cursor { return &Cursor{ledger: l, reader: newReader()} }

// Status says what became of a key.
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

// Find returns the record that counts for a key, with status Absent where there is none or where it turns out to be
// damaged. Row is valid until the next call; blobs come with name and size but without data, see Blob.
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

// Blob reads a blob of the record that Find returned last. Where it turns out to be damaged, the record is lost and the
// error is a *DamagedError.
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

// lose drops the record at which the cursor stands.
func (c *Cursor) lose() {
	c.ledger.lose(c.current.key.fingerprint(), c.ref)
	c.ref = Ref{}
}

// load reads the header of the record at ref; the ledger's lock is held.
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

// Close gives back what the cursor holds.
func (c *Cursor) Close() {
	if c.file != nil {
		c.ledger.files.release(c.file)
		c.file = nil
	}
}
