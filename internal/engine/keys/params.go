package keys

import (
	"math"
	"slices"
	"strconv"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// laterParams are parameters that enter a key only if the row has them.
var laterParams = []stages.Param{
	stages.ParamAes, stages.ParamFlow, stages.ParamCameraMotion, stages.ParamReference, stages.ParamMaskStrategy,
	stages.ParamLoop, stages.ParamConditionFrameLength, stages.ParamConditionFrameEdit,
	stages.ParamMedia, stages.ParamGuidanceScale2, stages.ParamNoise, stages.ParamCut, stages.ParamTextLength,
}

func laterParam(p stages.Param) bool {
	_, own := p.Column()
	return own || slices.Contains(laterParams, p)
}

// laterValue returns a row's value of a later parameter, except parameters whose value is the content of a file; "": the row has none.
// A loop of one clip counts as no value, because rows without a loop have one clip.
func laterValue(row *schemas.PromptRow, p stages.Param) string {
	switch p {
	case stages.ParamAes:
		return row.Aes
	case stages.ParamFlow:
		return row.Flow
	case stages.ParamCameraMotion:
		return row.CameraMotion
	case stages.ParamMaskStrategy:
		return row.MaskStrategy
	case stages.ParamLoop:
		if row.Loop > 1 {
			return strconv.Itoa(row.Loop)
		}
	case stages.ParamConditionFrameLength:
		if (row.Loop > 1 || row.Reference != "") && row.ConditionFrameLength > 0 {
			return strconv.Itoa(row.ConditionFrameLength)
		}
	case stages.ParamConditionFrameEdit:
		if row.Loop > 1 && row.ConditionFrameEdit != nil {
			return strconv.FormatUint(math.Float64bits(*row.ConditionFrameEdit), 16)
		}
	case stages.ParamCut:
		if row.Cut != nil {
			return row.Cut.String()
		}
	case stages.ParamGuidanceScale2:
		if row.GuidanceScale2 != nil {
			return strconv.FormatUint(math.Float64bits(*row.GuidanceScale2), 16)
		}
	}
	return ""
}
