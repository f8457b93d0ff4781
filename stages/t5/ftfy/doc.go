// Package ftfy repairs text as the default settings of the Python library ftfy 6.3.1 do: mojibake ("donâ€™t"), HTML entities,
// terminal escapes, ligatures, character widths, curly quotes, line breaks, control characters, NFC. Open-Sora's cleaning of
// captions calls that library, so the model was trained on its results.
//
// The package was written from the documented behaviour and is tested against the library's results in testdata. It does not
// have options, explanations or guesses about bytes. A new repair is a step of repair in fix.go.
//
// The package is not under internal because models and jobs of this program share it. But it is not public
// (internal/dev/layers/public_test.go): it may change at any time.
package ftfy
