package gallery

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
)

// writeBuffer is the size of the write buffer: larger than most cards, and small compared with a page.
const writeBuffer = 64 << 10

// The element that holds the cards. A browser does not execute it.
const (
	dataBegin = "<script type=\"application/json\" id=\"rows\">[\n"
	dataEnd   = "]</script>\n"
)

// Write writes one page. It reads p.Items once and holds one item in memory. It returns an error for an invalid
// item, for more or fewer items than p.Total requires, and if w fails. After an error w contains an incomplete
// page, so w should be a temporary file that is renamed when Write succeeds.
func Write(w io.Writer, p Page) error {
	if err := write(w, &p); err != nil {
		return fmt.Errorf("write gallery page %q: %w", p.name(p.Number), err)
	}
	return nil
}

// WriteAll writes all pages of a gallery. p.Items yields the items of all pages in order, and is read once. p.Number and
// p.Pages are ignored. For each page, WriteAll calls create with the page's file name and a function that writes the page.
// create must call this function exactly once; store.Store.Replace has this form.
func WriteAll(p Page, create func(name string, write func(io.Writer) error) error) error {
	if p.Items == nil {
		return errors.New("write gallery: no items to read")
	}
	next, stop := iter.Pull2(p.Items)
	defer stop()
	p.Pages = PageCount(p.Total)
	for p.Number = 1; p.Number <= p.Pages; p.Number++ {
		page := p
		page.Items = nextItems(next, page.expected())
		write := func(w io.Writer) error { return Write(w, page) }
		if err := create(page.name(page.Number), write); err != nil {
			return err
		}
	}
	if _, _, more := next(); more {
		return fmt.Errorf("write gallery: more than the %d items announced", p.Total)
	}
	return nil
}

// nextItems returns the next n items of a pulled sequence.
func nextItems(next func() (Item, error, bool), n int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for range n {
			item, err, ok := next()
			if !ok || !yield(item, err) {
				return
			}
		}
	}
}

func write(w io.Writer, p *Page) error {
	if err := p.validate(); err != nil {
		return err
	}
	head, err := newHead(p)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, writeBuffer)
	if err := page.ExecuteTemplate(out, "head", head); err != nil {
		return err
	}
	if err := writeCards(out, p); err != nil {
		return err
	}
	if err := page.ExecuteTemplate(out, "foot", head); err != nil {
		return err
	}
	return out.Flush()
}

func writeCards(out io.Writer, p *Page) error {
	n := 0
	if _, err := io.WriteString(out, dataBegin); err != nil {
		return err
	}
	for item, err := range p.Items {
		if err != nil {
			return fmt.Errorf("read item %d: %w", n+1, err)
		}
		if n++; n > p.expected() {
			break
		}
		card, err := cardJSON(&item)
		if err != nil {
			return fmt.Errorf("item %d, id %q: %w", n, item.ID, err)
		}
		if n > 1 {
			card = append([]byte(",\n"), card...)
		}
		if _, err := out.Write(card); err != nil {
			return err
		}
	}
	if n != p.expected() {
		return fmt.Errorf("items differ in number from the %d that belong on page %d of %d in all",
			p.expected(), p.Number, p.Total)
	}
	_, err := io.WriteString(out, dataEnd)
	return err
}
