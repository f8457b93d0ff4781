// Package where chooses rows of tables by an expression over their columns, such as "aesthetic_quality > 5.5 and selected". Expressions are those of
// github.com/expr-lang/expr.
package where

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// readingPrefix is before the names of readings in tables. They may be written without it.
const readingPrefix = "measured_"

// Filter is an expression.
type Filter struct {
	text  string
	names []string // that it asks for
}

// Parse reads an expression. What is wrong with it is an error of usage with its place.
func Parse(text string) (*Filter, error) {
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, fault.Usage(fmt.Errorf("--where %q: %w; write it as in: aesthetic_quality > 5.5 and selected", text, err))
	}
	f := &Filter{text: text}
	ast.Walk(&tree.Node, &collector{f})
	return f, nil
}

// collector collects the names of an expression.
type collector struct{ into *Filter }

// Visit implements ast.Visitor.
func (c *collector) Visit(node *ast.Node) {
	if id, is := (*node).(*ast.IdentifierNode); is && !slices.Contains(c.into.names, id.Value) {
		c.into.names = append(c.into.names, id.Value)
	}
}

// String is the expression.
func (f *Filter) String() string { return f.text }

// Bound is a filter for the columns of one table.
type Bound struct {
	filter  *Filter
	program *vm.Program
	columns map[string]string // the column of each name
}

// Bind finds the columns of a table; zeros are a value of each column's type. A name that is no column is an error of usage.
func (f *Filter) Bind(table string, zeros map[string]any) (*Bound, error) {
	b := &Bound{filter: f, columns: map[string]string{}}
	env := map[string]any{}
	for _, name := range f.names {
		column := name
		if _, there := zeros[column]; !there {
			column = readingPrefix + name
		}
		zero, there := zeros[column]
		if !there {
			return nil, fault.Usage(fmt.Errorf("--where %q: %s has no column %s; it has %s", f.text, table, name, strings.Join(names(zeros), ", ")))
		}
		b.columns[name], env[name] = column, zero
	}
	var err error
	if b.program, err = expr.Compile(f.text, expr.Env(env), expr.AsBool()); err != nil {
		return nil, fault.Usage(fmt.Errorf("--where %q: %w", f.text, err))
	}
	return b, nil
}

// names are the columns as people write them.
func names(zeros map[string]any) (all []string) {
	for name := range maps.Keys(zeros) {
		all = append(all, strings.TrimPrefix(name, readingPrefix))
	}
	slices.Sort(all)
	return all
}

// Takes reports whether the row is chosen whose columns value gives. A row without a value that the expression asks for is not.
func (b *Bound) Takes(value func(column string) any) (bool, error) {
	env := map[string]any{}
	for name, column := range b.columns {
		v := value(column)
		if v == nil {
			return false, nil
		}
		env[name] = v
	}
	got, err := expr.Run(b.program, env)
	if err != nil {
		return false, fault.Usage(fmt.Errorf("--where %q: %w", b.filter.text, err))
	}
	return got.(bool), nil
}

// Rows says of each row of a table's file whether it is chosen.
func (f *Filter) Rows(ctx context.Context, s store.Store, name string) ([]bool, error) {
	path := store.Address(s.URL(), name)
	file, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p, err := parquet.OpenFile(file, file.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	zeros, at := columnsOf(p)
	b, err := f.Bind(path, zeros)
	if err != nil {
		return nil, err
	}
	var all []bool
	for _, group := range p.RowGroups() {
		n := int(group.NumRows())
		values := map[string][]any{}
		for _, column := range b.columns {
			if values[column], err = valuesOf(group.ColumnChunks()[at[column]], n); err != nil {
				return nil, fmt.Errorf("read %s: column %s: %w", path, column, err)
			}
		}
		for i := range n {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			takes, err := b.Takes(func(column string) any { return values[column][i] })
			if err != nil {
				return nil, err
			}
			all = append(all, takes)
		}
	}
	return all, nil
}

// columnsOf are the columns of a file that have one number, text or truth a row, and their places.
func columnsOf(p *parquet.File) (zeros map[string]any, at map[string]int) {
	zeros, at = map[string]any{}, map[string]int{}
	for _, path := range p.Schema().Columns() {
		leaf, found := p.Schema().Lookup(path...)
		if !found || len(path) != 1 || leaf.Node.Repeated() {
			continue
		}
		switch leaf.Node.Type().Kind() {
		case parquet.Boolean:
			zeros[path[0]] = false
		case parquet.Int32, parquet.Int64:
			zeros[path[0]] = 0
		case parquet.Float, parquet.Double:
			zeros[path[0]] = 0.0
		case parquet.ByteArray:
			if t := leaf.Node.Type().LogicalType(); t == nil || t.String() != "STRING" {
				continue
			}
			zeros[path[0]] = ""
		default:
			continue
		}
		at[path[0]] = leaf.ColumnIndex
	}
	return zeros, at
}

// valuesOf are the values of a column, nil for null.
func valuesOf(chunk parquet.ColumnChunk, n int) ([]any, error) {
	pages := chunk.Pages()
	defer pages.Close()
	out := make([]any, 0, n)
	buffer := make([]parquet.Value, 1024)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		values := page.Values()
		for {
			k, err := values.ReadValues(buffer)
			for _, v := range buffer[:k] {
				out = append(out, plain(v))
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if len(out) != n {
		return nil, fmt.Errorf("%d values for %d rows", len(out), n)
	}
	return out, nil
}

func plain(v parquet.Value) any {
	switch {
	case v.IsNull():
		return nil
	case v.Kind() == parquet.Boolean:
		return v.Boolean()
	case v.Kind() == parquet.Int32:
		return int(v.Int32())
	case v.Kind() == parquet.Int64:
		return int(v.Int64())
	case v.Kind() == parquet.Float:
		return float64(v.Float())
	case v.Kind() == parquet.Double:
		return v.Double()
	}
	return string(v.ByteArray())
}
