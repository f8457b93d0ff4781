package same

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// row holds the key of a table's row and the digests of its tensors.
type row struct {
	name, key string
	tensors   []string
}

// table is the content of a parquet file.
type table struct {
	columns map[string]string // type and digest of the values, by name; also entries of the file's metadata
	rows    []row
}

// readTable reads a parquet file. It leaves out the version of the program, so that a release does not change the record.
func readTable(t *testing.T, name string, data []byte) (out table) {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	out.columns = map[string]string{}
	for _, kv := range f.Metadata().KeyValueMetadata {
		if kv.Key != "latentbeam.version" {
			out.columns["("+kv.Key+")"] = short(kv.Value)
		}
	}
	var owner []int // index of the field of each leaf column
	fields := f.Schema().Fields()
	for i, field := range fields {
		owner = append(owner, slices.Repeat([]int{i}, leaves(field))...)
	}
	sums := make([]hash.Hash, len(fields))
	for i := range sums {
		sums[i] = sha256.New()
	}
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		buffer := make([]parquet.Row, 1)
		for {
			n, err := rows.ReadRows(buffer)
			if n == 0 && errors.Is(err, io.EOF) {
				break
			}
			if n == 0 {
				t.Fatalf("%s: %v", name, err)
			}
			values := make([]string, len(fields)) // the first value of each field
			for _, v := range slices.Backward(buffer[0]) {
				values[owner[v.Column()]] = v.String()
			}
			for _, v := range buffer[0] {
				null, content := -1, v.AppendBytes(nil)
				if v.IsNull() {
					null = v.DefinitionLevel()
				}
				fmt.Fprintf(sums[owner[v.Column()]], "%d %d %d %s;", v.RepetitionLevel(), null, len(content), content)
			}
			out.rows = append(out.rows, rowOf(fields, values, len(out.rows)))
		}
		if err := rows.Close(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if int64(len(out.rows)) != f.NumRows() {
		t.Fatalf("%s has %d rows, and %d can be read", name, f.NumRows(), len(out.rows))
	}
	for i, field := range fields {
		out.columns[field.Name()] = typeOf(field)
		if field.Name() != "latentbeam_version" {
			out.columns[field.Name()] += fmt.Sprintf(" %x", sums[i].Sum(nil)[:6])
		}
	}
	return out
}

// rowOf returns row number n of a table.
func rowOf(fields []parquet.Field, values []string, n int) (r row) {
	sample := "0"
	for i, field := range fields {
		switch tensor, isTensor := strings.CutSuffix(field.Name(), "_bytes"); {
		case field.Name() == "id":
			r.name = values[i]
		case field.Name() == "key":
			r.key = short(values[i])
		case field.Name() == "sample_index":
			sample = values[i]
		case isTensor && values[i] != "" && typeOf(field) == "byte_array":
			r.tensors = append(r.tensors, tensor+"="+digest([]byte(values[i])))
		}
	}
	if r.name == "" {
		r.name = fmt.Sprintf("row-%d", n+1)
	}
	if sample != "0" {
		r.name += "/" + sample
	}
	return r
}

// leaves counts the leaf columns below a field.
func leaves(node parquet.Node) (n int) {
	if node.Leaf() {
		return 1
	}
	for _, field := range node.Fields() {
		n += leaves(field)
	}
	return n
}

// typeOf returns the type of a field, such as string, int64 or byte_array. An optional type ends with "?", and a repeated one is in
// list<>.
func typeOf(node parquet.Node) (name string) {
	switch {
	case node.Leaf():
		name = strings.ToLower(node.Type().String())
		name, _, _ = strings.Cut(name, "(")
		if name == "int" {
			name = "int64"
		}
	case node.Type().String() == "LIST":
		name = "list<" + typeOf(node.Fields()[0].Fields()[0]) + ">"
	default:
		for _, field := range node.Fields() {
			name += "," + field.Name() + ":" + typeOf(field)
		}
		name = "{" + strings.TrimPrefix(name, ",") + "}"
	}
	if node.Repeated() {
		name = "list<" + name + ">"
	}
	if node.Optional() {
		name += "?"
	}
	return name
}

// addTable adds the columns of a table, and the rows of a table of an output.
func addTable(now state, name string, tab table) {
	for column, value := range tab.columns {
		now[item{"table", name, column}] = value
	}
	out, part, ok := strings.Cut(name, "/tables/")
	if !ok {
		return
	}
	count := map[string]int{}
	for _, r := range tab.rows {
		if r.key == "" {
			continue
		}
		count[r.name]++
		if n := count[r.name]; n > 1 {
			r.name += fmt.Sprintf("(%d)", n)
		}
		at := item{"rows", out, r.name}
		if now[at] == "" {
			now[at] = r.key
		} else if !strings.HasPrefix(now[at], r.key) {
			now[at] += fmt.Sprintf(" %s.key=%s", path.Dir(part), r.key)
		}
		for _, tensor := range r.tensors {
			if !strings.Contains(now[at], tensor) {
				now[at] += " " + tensor
			}
		}
	}
}
