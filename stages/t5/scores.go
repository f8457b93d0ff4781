package t5

import (
	"fmt"
	"strconv"
	"strings"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// The styles in which versions of Open-Sora were trained to read scores after a prompt.
const (
	scoresNone = "none" // no scores, before 1.2
	scores12   = "1.2"  // as numbers
	scores13   = "1.3"  // in words
)

// scoreStyle returns the style for an option. "" selects the style of the model's version, if it is an Open-Sora.
func scoreStyle(option string, index stages.Index) (string, error) {
	switch option {
	case scoresNone, scores12, scores13:
		return option, nil
	case "":
		if v := index.Version; index.ClassName != stages.PlanPipeline && (v == scores12 || v == scores13) {
			return v, nil
		}
		return scoresNone, nil
	}
	return "", stages.Errorf("scores", "encode_text: scores is %q: give none, 1.2 or 1.3, the Open-Sora that reads them",
		option)
}

// checkScores returns an error for a score of the row that cannot be written in the style.
func checkScores(style string, row *schemas.PromptRow) error {
	if style != scores12 {
		return nil
	}
	for _, s := range []struct{ name, value string }{{"aes", row.Aes}, {"flow", row.Flow}} {
		if _, err := number(s.value); s.value != "" && err != nil {
			return fmt.Errorf("%s is %q: Open-Sora 1.2 reads a number, such as 6.5", s.name, s.value)
		}
	}
	return nil
}

// withScores appends the row's scores that the prompt does not contain already.
func withScores(style, prompt string, row *schemas.PromptRow) string {
	switch style {
	case scores12:
		prompt = appendScore(prompt, "aesthetic score:", row.Aes, "aesthetic score: %s.", oneDecimal)
		prompt = appendScore(prompt, "motion score:", row.Flow, "motion score: %s.", oneDecimal)
	case scores13:
		aes, flow := aestheticWords.word, motionWords.word
		prompt = appendScore(prompt, "aesthetic score is", row.Aes, "The aesthetic score is %s.", aes)
		prompt = appendScore(prompt, "motion strength is", row.Flow, "The motion strength is %s.", flow)
	default:
		return prompt
	}
	asIs := func(s string) string { return s }
	return appendScore(prompt, "camera motion:", row.CameraMotion, "camera motion: %s.", asIs)
}

func appendScore(prompt, named, value, format string, write func(string) string) string {
	if value == "" || strings.Contains(prompt, named) {
		return prompt
	}
	return prompt + " " + fmt.Sprintf(format, write(value))
}

func number(s string) (float64, error) { return strconv.ParseFloat(strings.TrimSpace(s), 64) }

func oneDecimal(s string) string {
	v, err := number(s)
	if err != nil {
		return s // checkScores has refused it
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// scale maps scores to words: the first entry whose limit is above the score, else the last.
type scale []struct {
	below float64
	word  string
}

var (
	aestheticWords = scale{{4, "terrible"}, {4.5, "very poor"}, {5, "poor"}, {5.5, "fair"}, {6, "good"},
		{6.5, "very good"}, {0, "excellent"}}
	motionWords = scale{{0.5, "very low"}, {2, "low"}, {5, "fair"}, {10, "high"}, {20, "very high"},
		{0, "extremely high"}}
)

// word returns the word for a number. Other texts are returned unchanged, as words.
func (s scale) word(score string) string {
	v, err := number(score)
	if err != nil {
		return score
	}
	last := len(s) - 1
	for _, step := range s[:last] {
		if v < step.below {
			return step.word
		}
	}
	return s[last].word
}
