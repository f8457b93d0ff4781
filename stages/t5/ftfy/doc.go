// Package ftfy repairs text as the default settings of the Python library ftfy 6.3.1 do: mojibake
// ("donâ€™t"), HTML entities, terminal escapes, ligatures, character widths, curly quotes, line breaks,
// control characters, NFC. The caption cleaning of Open-Sora calls it, so its results are part of what
// the model was trained on.
//
// Written from the documented behaviour and held to the library by testdata; options, explanations and
// guesses about bytes do not belong here. A new repair is a step of repair in fix.go.
//
// It is not under internal because models and jobs of this program share it, but it is no part of the public face
// (internal/dev/layers/public_test.go): it may change at any time.
package ftfy
