package same

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// findings are the differences between the record and the results of calls, as lines of text.
type findings struct {
	wrong   []string // results that changed although their key did not
	keys    []string // rows whose keys changed
	columns []string // columns of tables that changed
	other   []string // all other changes
}

// compareResults returns how the results of calls differ from the record.
func compareResults(recorded, calls []callResult) (f findings) {
	if len(recorded) != len(calls) {
		f.other = append(f.other, fmt.Sprintf("%d calls, %d were recorded", len(calls), len(recorded)))
	}
	d := differ{want: state{}, got: state{}, said: map[item][2]string{}, owners: map[string][]string{}, replaced: map[string]bool{}}
	for i := range min(len(recorded), len(calls)) {
		d.n = calls[i].n
		d.want.apply(recorded[i].wrote)
		d.got.apply(calls[i].wrote)
		d.noteRows()
		all := maps.Clone(d.want)
		maps.Copy(all, d.got)
		for _, at := range sortedItems(all) {
			if before, now := d.want[at], d.got[at]; before != now && d.said[at] != [2]string{before, now} {
				d.said[at] = [2]string{before, now}
				d.note(&f, at, before, now)
			}
		}
	}
	return f
}

// apply applies the changes of a call to a state.
func (s state) apply(wrote state) {
	for at, value := range wrote {
		switch {
		case at.name == "*" && value == gone:
			maps.DeleteFunc(s, func(i item, _ string) bool { return i.kind == at.kind && i.place == at.place })
		case value == gone:
			delete(s, at)
		default:
			s[at] = value
		}
	}
}

// differ compares the state after a call with the record.
type differ struct {
	n         int // number of the call
	want, got state
	said      map[item][2]string  // recorded and present value of items whose difference is reported already
	owners    map[string][]string // rows by the first 16 digits of their keys
	replaced  map[string]bool     // old and new keys of rows whose keys changed
}

// noteRows records the keys of rows and which of them changed.
func (d *differ) noteRows() {
	for at, value := range d.got {
		if at.kind != "rows" {
			continue
		}
		key, _, _ := strings.Cut(value, " ")
		if name := fmt.Sprintf("%s of %s", at.name, at.place); !slices.Contains(d.owners[key], name) {
			d.owners[key] = append(d.owners[key], name)
		}
		if before, _, _ := strings.Cut(d.want[at], " "); before != "" && before != key {
			d.replaced[before], d.replaced[key] = true, true
		}
	}
}

// hasResult reports whether a key has a file, or a ledger record of a done row.
func (d *differ) hasResult(key string) bool {
	for at, value := range d.got {
		if at.kind == "files" && strings.Contains(at.name, key) || at.kind == "ledger" && at.name == key && strings.HasPrefix(value, "status=1") {
			return true
		}
	}
	return false
}

// sixteen matches the first 16 digits of a key or digest.
var sixteen = regexp.MustCompile(`[0-9a-f]{16}`)

// note reports how an item differs. An empty value means that the item does not exist.
func (d *differ) note(f *findings, at item, before, now string) {
	where := fmt.Sprintf("call %d: %s of %s", d.n, at.name, at.place)
	key := sixteen.FindString(at.name)
	oldKey, oldTensors, _ := strings.Cut(before, " ")
	newKey, newTensors, _ := strings.Cut(now, " ")
	changed := fmt.Sprintf("%s is %s, recorded %s", where, now, before)
	fields := fieldDiff(before, now)
	switch both := before != "" && now != ""; {
	case at.kind == "rows" && both && oldKey != newKey && !d.hasResult(newKey):
		f.other = append(f.other, fmt.Sprintf("call %d: row %s of %s, which has no result, has key %s, recorded %s", d.n, at.name, at.place,
			newKey, oldKey))
	case at.kind == "rows" && both && oldKey != newKey:
		f.keys = append(f.keys, fmt.Sprintf("call %d: row %s of %s has key %s, recorded %s", d.n, at.name, at.place, newKey, oldKey))
	case at.kind == "rows" && both:
		f.wrong = append(f.wrong, fmt.Sprintf("call %d: row %s of %s, key %s: %s", d.n, at.name, at.place, newKey,
			fieldDiff(oldTensors, newTensors)))
	case at.kind == "files" && both && key != "":
		f.wrong = append(f.wrong, changed+": "+d.rowsOf(key))
	case at.kind == "ledger" && both && strings.Contains(fields, "sha256"):
		f.wrong = append(f.wrong, fmt.Sprintf("%s: %s: %s", where, fields, d.rowsOf(key)))
	case at.kind == "ledger" && both:
		f.other = append(f.other, fmt.Sprintf("%s: %s: %s", where, fields, d.rowsOf(key)))
	case d.replaced[key]: // reported for its row
	case at.kind == "table" && both:
		f.columns = append(f.columns, changed)
	case at.kind == "table" && now == "":
		f.columns = append(f.columns, where+" is missing")
	case at.kind == "table":
		f.columns = append(f.columns, where+" is new: "+now)
	case both:
		f.other = append(f.other, changed)
	case now == "":
		f.other = append(f.other, fmt.Sprintf("%s is missing, recorded %s", where, before))
	default:
		f.other = append(f.other, where+" is new: "+now)
	}
}

// rowsOf returns the rows with a key.
func (d *differ) rowsOf(key string) string {
	if rows := d.owners[key]; len(rows) > 0 {
		slices.Sort(rows)
		return "row " + strings.Join(rows, ", row ")
	}
	return "no table names its row"
}

// fieldDiff returns which fields NAME=VALUE of two lines differ.
func fieldDiff(before, now string) string {
	old, out := map[string]string{}, []string(nil)
	for f := range strings.FieldsSeq(before) {
		name, value, _ := strings.Cut(f, "=")
		old[name] = value
	}
	for f := range strings.FieldsSeq(now) {
		name, value, _ := strings.Cut(f, "=")
		switch was, ok := old[name]; {
		case !ok:
			out = append(out, fmt.Sprintf("%s is new: %s", name, value))
		case was != value:
			out = append(out, fmt.Sprintf("%s is %s, recorded %s", name, value, was))
		}
		delete(old, name)
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		out = append(out, name+" is missing")
	}
	return strings.Join(out, "; ")
}

// maxShown is the largest number of lines that String shows under one title.
const maxShown = 12

// String returns the report about the differences, with a title for each kind. It is empty if there are none.
func (f findings) String() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"RESULTS CHANGED AND KEYS DID NOT. Outputs of earlier programs would keep the old results of these rows:", f.wrong},
		{"Keys changed. Outputs of earlier programs compute these rows again:", f.keys},
		{"Columns changed:", f.columns},
		{"Other changes:", f.other},
	} {
		if len(part.lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s\n", part.title)
		for i, line := range part.lines {
			if i == maxShown {
				fmt.Fprintf(&b, "  and %d more\n", len(part.lines)-i)
				break
			}
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	return b.String()
}
