package report

import (
	"slices"
	"testing"

	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

func TestColumnsHaveTypes(t *testing.T) {
	c := ColumnsOf[schemas.DatasetRow]()
	extras := []string{`{"i":1,"r":1,"b":true,"s":"x","mixed":1,"none":null,"key":"k","Key":2,"o":{"a":1},"big":1e400}`,
		"", `{"i":-5,"r":0.5,"b":null,"s":"","mixed":"one","none":null}`}
	for _, extra := range extras {
		must(t, c.Learn(extra, nil))
	}
	readings := map[string]string{"n": "7", "prompt": "1984", "r": "0.3100", "s": "seen"}
	must(t, c.Learn(extras[0], readings))
	must(t, c.Learn(extras[0], map[string]string{"r": "nan", "n": "-2"}))
	want := []write.Column{{Name: "i", Type: write.Integer}, {Name: "r", Type: write.Real}, {Name: "b", Type: write.Boolean},
		{Name: "s", Type: write.Text}, {Name: "mixed", Type: write.Text}, {Name: "none", Type: write.Nothing},
		{Name: "input_key", Type: write.Text}, {Name: "input_Key_2", Type: write.Integer}, {Name: "o", Type: write.Text},
		{Name: "big", Type: write.Text}, {Name: "measured_n", Type: write.Integer}, {Name: "measured_prompt", Type: write.Text},
		{Name: "measured_r", Type: write.Real}, {Name: "measured_s", Type: write.Text}}
	if !slices.Equal(c.List(), want) {
		t.Errorf("columns\n%+v, want\n%+v", c.List(), want)
	}
	values, err := c.Values(extras[0], readings)
	must(t, err)
	text := func(i int) string { return *values[i].(*string) }
	if *values[0].(*int64) != 1 || *values[1].(*float64) != 1 || !*values[2].(*bool) || text(3) != "x" ||
		text(4) != "1" || values[5] != nil || text(8) != `{"a":1}` || text(9) != "1e400" || *values[10].(*int64) != 7 ||
		text(11) != "1984" ||
		*values[12].(*float64) != 0.31 || text(13) != "seen" {
		t.Errorf("values %v", values)
	}
	values, err = c.Values(extras[1], nil)
	must(t, err)
	if slices.ContainsFunc(values, func(v any) bool { return v != nil }) {
		t.Errorf("a row without columns has %v", values)
	}
}
