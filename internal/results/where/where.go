// Package where chooses rows of tables by an expression over their columns, such as "aesthetic_quality > 5.5 and selected". Package
// github.com/expr-lang/expr defines the language of the expressions.
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

// readingPrefix is the prefix of the names of readings in tables. Expressions may leave it out.
const readingPrefix = "measured_"

// Filter is an expression.
type Filter struct {
	text  string
	names []string // names of columns in the expression
}

// Parse parses an expression. A syntax error is a usage error with its position.
func Parse(text string) (*Filter, error) {
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, fault.Usage(fmt.Errorf("--where %q: %w; write it as in: aesthetic_quality > 5.5 and selected", text, err))
	}
	f := &Filter{text: text}
	ast.Walk(&tree.Node, &collector{f})
	return f, nil
}

// collector collects the names in an expression.
type collector struct{ into *Filter }

// Visit implements ast.Visitor.
func (c *collector) Visit(node *ast.Node) {
	if id, is := (*node).(*ast.IdentifierNode); is && !slices.Contains(c.into.names, id.Value) {
		c.into.names = append(c.into.names, id.Value)
	}
}

// String returns the expression.
func (f *Filter) String() string { return f.text }

// Bound is a filter that is bound to the columns of one table.
type Bound struct {
	filter  *Filter
	program *vm.Program
	columns map[string]string // columns by their names in the expression
}

// Bind binds the filter to the columns of a table. zeros maps each column to a value of its type. A name that is not a column is a
// usage error.
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

// names returns the sorted names of the columns, without readingPrefix.
func names(zeros map[string]any) (all []string) {
	for name := range maps.Keys(zeros) {
		all = append(all, strings.TrimPrefix(name, readingPrefix))
	}
	slices.Sort(all)
	return all
}

// Matches reports whether a row is chosen. value returns the row's value of a column; nil: null. A row with a null in one of the
// expression's columns is not chosen.
func (b *Bound) Matches(value func(column string) any) (bool, error) {
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

// Rows reports for each row of a table's file whether it is chosen.
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
			matches, err := b.Matches(func(column string) any { return values[column][i] })
			if err != nil {
				return nil, err
			}
			all = append(all, matches)
		}
	}
	return all, nil
}

// columnsOf returns the columns of a file that have one number, text or boolean per row: a value of each column's type, and its
// index.
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

// valuesOf returns the n values of a column; nil: null.
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

// plain converts a value to the type that expressions use; nil: null.
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
