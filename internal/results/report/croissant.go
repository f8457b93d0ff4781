package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/typed"
	"latentbeam/stages"
)

// croissantFile is the name of the file that describes the output for catalogues and loaders of data sets, in Croissant 1.1,
// https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html.
const croissantFile = "croissant.json"

// croissantMark is in every Croissant file of this program. A file without it was edited by a user and is never replaced.
const croissantMark = "Written by latentbeam. Remove this sentence, and runs leave this file as it is."

// croissantContext is the @context of the specification.
const croissantContext = `{
  "@language": "en", "@vocab": "https://schema.org/", "arrayShape": "cr:arrayShape", "citeAs": "cr:citeAs", "column": "cr:column",
  "conformsTo": "dct:conformsTo", "containedIn": "cr:containedIn", "cr": "http://mlcommons.org/croissant/",
  "data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
  "dct": "http://purl.org/dc/terms/", "equivalentProperty": "cr:equivalentProperty", "examples": {"@id": "cr:examples", "@type": "@json"},
  "extract": "cr:extract", "field": "cr:field", "fileObject": "cr:fileObject", "fileProperty": "cr:fileProperty",
  "fileSet": "cr:fileSet", "format": "cr:format", "includes": "cr:includes", "isArray": "cr:isArray",
  "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key", "md5": "cr:md5", "parentField": "cr:parentField",
  "path": "cr:path", "rai": "http://mlcommons.org/croissant/RAI/", "recordSet": "cr:recordSet", "references": "cr:references",
  "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace", "samplingRate": "cr:samplingRate",
  "sc": "https://schema.org/", "separator": "cr:separator", "source": "cr:source", "subField": "cr:subField", "transform": "cr:transform"
}`

// The parts of a Croissant file that this package writes.
type (
	croissant struct {
		Context      json.RawMessage `json:"@context"`
		Type         string          `json:"@type"`
		Conforms     string          `json:"conformsTo"`
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		Licence      string          `json:"license,omitempty"` // licence of the model's weights; "": not known
		Keywords     []string        `json:"keywords,omitempty"`
		Version      string          `json:"version"`
		CiteAs       string          `json:"citeAs"`
		Distribution []fileSet       `json:"distribution"`
		RecordSet    []recordSet     `json:"recordSet"`
	}
	fileSet struct {
		Type        string `json:"@type"`
		ID          string `json:"@id"`
		Description string `json:"description"`
		Encoding    string `json:"encodingFormat"`
		Includes    string `json:"includes"`
	}
	recordSet struct {
		Type  string       `json:"@type"`
		ID    string       `json:"@id"`
		Field []tableField `json:"field"`
	}
	ref struct {
		ID string `json:"@id"`
	}
	tableField struct {
		Type     string `json:"@type"`
		ID       string `json:"@id"`
		Name     string `json:"name"`
		DataType string `json:"dataType"`
		IsArray  bool   `json:"isArray,omitempty"`
		Shape    string `json:"arrayShape,omitempty"`
		Source   struct {
			FileSet ref `json:"fileSet"`
			Extract struct {
				Column string `json:"column"`
			} `json:"extract"`
		} `json:"source"`
	}
)

// croissantTypes maps types of parquet to types of Croissant.
var croissantTypes = map[parquet.Kind]string{parquet.Boolean: "sc:Boolean", parquet.Int32: "cr:Int32", parquet.Int64: "cr:Int64",
	parquet.Float: "cr:Float32", parquet.Double: "cr:Float64", parquet.ByteArray: "sc:Text"} // loaders pass bytes through unchanged

// croissant writes the description of the output. The tables must be written before. A report of one shard has no description, so
// that loaders do not read it as the whole data set.
func (p *pageWriter) croissant(ctx context.Context, keep map[stages.Kind]bool) error {
	if p.place.part != "" {
		return p.replaceOwn(ctx, croissantFile, croissantMark, nil)
	}
	about := oneLine(p.title)
	d := croissant{Context: json.RawMessage(croissantContext), Type: "sc:Dataset", Conforms: "http://mlcommons.org/croissant/1.1", Name: about,
		Description: fmt.Sprintf("Made by latentbeam with the model %s. Columns whose names end in _bytes are tensors, with _shape and _dtype "+
			"beside them. %s", oneLine(p.made.Model), croissantMark),
		Version: "1.0.0", CiteAs: fmt.Sprintf("%s, made by latentbeam with the model %s", about, oneLine(p.made.Model))}
	if p.made.Licence != "" && p.made.Licence != "unknown" {
		d.Licence = oneLine(p.made.Licence)
	}
	if p.generates {
		d.Keywords = []string{"synthetic"}
	}
	for _, t := range []struct {
		table, words string
		kind         stages.Kind
	}{{"videos", "a row for each video", stages.KindVideo}, {"latents", "a row for each latent", stages.KindLatents},
		{"embeddings", "a row for each text embedding", stages.KindText}, {"failures", "a row for each that could not be done", ""}} {
		if t.kind != "" && !keep[t.kind] {
			continue
		}
		columns, err := p.columns(ctx, t.table)
		if err != nil {
			return err
		}
		if columns == nil {
			continue
		}
		set := fileSet{"cr:FileSet", t.table + "-files", t.words, "application/x-parquet", "tables/" + t.table + "/*.parquet"}
		d.Distribution = append(d.Distribution, set)
		d.RecordSet = append(d.RecordSet, recordSet{"cr:RecordSet", t.table, tableFields(t.table, set.ID, columns)})
	}
	if keep[stages.KindVideo] {
		d.Distribution = append(d.Distribution, fileSet{"cr:FileSet", "video-files", "named by the column video_path", "video/mp4", "videos/*/*"})
	}
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	if err := to.Encode(d); err != nil {
		return err
	}
	return p.replaceOwn(ctx, croissantFile, croissantMark, text.Bytes())
}

// columns returns the columns of a table; nil: the table has no file. The files of different shards can have different columns: a shard
// without failures, for example, has fewer. So columns reads the first file of each shard.
func (p *pageWriter) columns(ctx context.Context, table string) (all []typed.Column, err error) {
	files, err := tables.Files(ctx, p.place.output.Store, table)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var others []typed.Column
	for _, name := range files {
		part := tables.PartOf(name)
		if seen[part] {
			continue
		}
		seen[part] = true
		f, err := p.place.output.Store.Open(ctx, name)
		if err != nil {
			return nil, err
		}
		of, err := typed.Columns(store.Address(p.place.output.Store.URL(), name), f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if len(of) > len(all) { // the file with the most columns has the order of the whole table
			all, of = of, all
		}
		others = append(others, of...)
	}
	for _, c := range others {
		if !slices.ContainsFunc(all, func(o typed.Column) bool { return o.Name == c.Name }) {
			all = append(all, c)
		}
	}
	return all, nil
}

// tableFields returns the fields of a table's records.
func tableFields(table, files string, columns []typed.Column) (fields []tableField) {
	for _, c := range columns {
		f := tableField{Type: "cr:Field", ID: table + "/" + c.Name, Name: c.Name, DataType: croissantTypes[c.Kind], IsArray: c.List}
		if f.DataType == "" {
			continue
		}
		if c.List {
			f.Shape = "-1" // any length
		}
		f.Source.FileSet.ID, f.Source.Extract.Column = files, c.Name
		fields = append(fields, f)
	}
	return fields
}

// oneLine replaces line breaks and runs of blanks by single blanks.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
